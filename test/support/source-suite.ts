/** Behaviour of every type of source: a sync sees no difference but speed. */
import { expect, onTestFinished, test } from 'vitest'
import type { SourceAddress, SourceConnection, SourceEntry, SourceFile, SourceLimits, SourceType } from '../../src/ports/source-type.ts'

/** A folder of a source that other clients write to. */
export interface SourcePlace {
  readonly type: SourceType
  readonly address: SourceAddress
  readonly limits: SourceLimits
  /** Creates or replaces a file, and its folders; `path` with `/`. */
  put(path: string, bytes: string): Promise<void>
  makeFolder(path: string): Promise<void>
  move(from: string, to: string): Promise<void>
  remove(path: string): Promise<void>
}

/** Names that must be encoded on the way. None begins with a dot: nginx does not list those. */
const oddNames = [
  'a b',
  'é日本',
  'e\u0301',
  '100%',
  '#1',
  'who?',
  'a&b<c',
  '[x]',
  'semi;colon',
  'plus+',
  "quo'te",
  '%2e%2e',
  '~',
  '😀',
  'x'.repeat(200),
]

/** The cases; `prepare` returns an empty folder that nobody else uses. */
export function testSourceType(prepare: () => Promise<SourcePlace>): void {
  test('lists everything below the address, and downloads each file unchanged', async () => {
    const place = await prepare()
    const names = oddNames.flatMap((name) => [`${name}.txt`, `in ${name}/${name}.txt`])
    for (const name of names) await place.put(name, `of ${name}`)
    const connection = open(place)
    const files = filesOf(await walked(connection))
    expect(files.map(({ path }) => path).sort()).toEqual([...names].sort())
    for (const file of files) {
      expect(file.size).toBe(Buffer.byteLength(`of ${file.path}`))
      expect(file.modifiedAt?.getTime()).toBeGreaterThan(Date.parse('2020-01-01'))
      expect(await textOf(connection, file)).toBe(`of ${file.path}`)
    }
  })

  test('an empty source has no files; folders without files are listed too', async () => {
    const place = await prepare()
    expect(await walked(open(place))).toEqual([expect.objectContaining({ kind: 'folder', path: '', isPruned: false })])
    await place.makeFolder('empty')
    expect((await walked(open(place))).map((entry) => entry.kind === 'folder' && entry.path).sort()).toEqual(['', 'empty'])
  })

  test('without recursion only files of the folder itself', async () => {
    const place = await prepare()
    await place.put('a.txt', 'a')
    await place.put('sub/b.txt', 'b')
    const flat = { ...place, address: { ...place.address, recursive: false } }
    expect(filesOf(await walked(open(flat))).map(({ path }) => path)).toEqual(['a.txt'])
  })

  test('unchanged files keep their marks; changed ones do not', async () => {
    const place = await prepare()
    for (const name of ['same', 'changed', 'moved', 'removed']) await place.put(`${name}.txt`, name)
    const before = new Map(filesOf(await walked(open(place))).map((file) => [file.path, file]))
    await place.put('changed.txt', 'changed and longer')
    await place.move('moved.txt', 'there.txt')
    await place.remove('removed.txt')
    const after = new Map(filesOf(await walked(open(place))).map((file) => [file.path, file]))
    expect([...after.keys()].sort()).toEqual(['changed.txt', 'same.txt', 'there.txt'])
    expect(after.get('same.txt')).toEqual(before.get('same.txt'))
    expect(after.get('changed.txt')).not.toEqual(before.get('changed.txt'))
    expect(after.get('there.txt')?.size).toBe(before.get('moved.txt')?.size)
  })

  test('SOURCE_NOT_FOUND_THERE for an address without a folder, and for a removed file', async () => {
    const place = await prepare()
    await place.put('a.txt', 'a')
    const connection = open(place)
    const [file] = filesOf(await walked(connection))
    await place.remove('a.txt')
    await expect(textOf(connection, file!)).rejects.toMatchObject({ code: 'SOURCE_NOT_FOUND_THERE' })
    const nowhere = { ...place, address: { ...place.address, url: `${place.address.url}nowhere/` } }
    await expect(walked(open(nowhere))).rejects.toMatchObject({ code: 'SOURCE_NOT_FOUND_THERE' })
  })

  test('an aborted listing ends with the reason', async () => {
    const place = await prepare()
    for (const name of ['a', 'b', 'c']) await place.put(`${name}/x.txt`, name)
    const stop = new AbortController()
    const reason = new Error('enough')
    const walk = (async () => {
      for await (const entry of open(place).walk({ loadTag, signal: stop.signal })) if (entry) stop.abort(reason)
    })()
    await expect(walk).rejects.toBe(reason)
  })

  test('a large file is downloaded completely, in chunks', async () => {
    const place = await prepare()
    await place.put('large.bin', '0123456789'.repeat(300_000))
    const connection = open(place)
    const [file] = filesOf(await walked(connection))
    const { bytes } = await connection.read(file!, new AbortController().signal)
    let [pieces, total] = [0, 0]
    for await (const piece of bytes) [pieces, total] = [pieces + 1, total + piece.length]
    expect(total).toBe(3_000_000)
    expect(pieces).toBeGreaterThan(5)
  })

  test('many files in one folder and in many folders are listed once each', async () => {
    const place = await prepare()
    const names = Array.from({ length: 300 }, (_, index) => `${index % 3 === 0 ? '' : `${index % 7}/`}${index}.txt`)
    for (const name of names) await place.put(name, 'x')
    expect(
      filesOf(await walked(open(place)))
        .map(({ path }) => path)
        .sort(),
    ).toEqual(names.sort())
  })

  test('the test of a source passes, with five paths', async () => {
    const place = await prepare()
    for (let count = 0; count < 7; count++) await place.put(`deep/er/${count}.txt`, 'x')
    const { checks, sample } = await open(place).test(new AbortController().signal)
    expect(checks.filter(({ ok }) => !ok)).toEqual([])
    expect(sample).toHaveLength(5)
    expect(sample.every((path) => path.startsWith('deep/er/'))).toBe(true)
  })
}

const loadTag = async () => null

function open({ type, address, limits }: SourcePlace): SourceConnection {
  const connection = type.open(address, limits)
  onTestFinished(() => connection.close())
  return connection
}

async function walked(connection: SourceConnection): Promise<SourceEntry[]> {
  return Array.fromAsync(connection.walk({ loadTag, signal: new AbortController().signal }))
}

const filesOf = (entries: readonly SourceEntry[]): SourceFile[] => entries.flatMap((entry) => (entry.kind === 'file' ? [entry.file] : []))

async function textOf(connection: SourceConnection, file: SourceFile): Promise<string> {
  const { bytes } = await connection.read(file, new AbortController().signal)
  const pieces: Uint8Array[] = []
  for await (const piece of bytes) pieces.push(piece)
  return Buffer.concat(pieces).toString()
}
