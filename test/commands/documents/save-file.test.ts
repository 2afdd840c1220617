import { mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { safeName, saveFile } from '../../../src/cli/remote/save-file.ts'

async function folder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'dms-save-'))
  onTestFinished(() => rm(path, { recursive: true, force: true }))
  return path
}

async function* chunks(...texts: string[]) {
  for (const text of texts) yield Buffer.from(text)
}

const abc = { size: 3, sha256: 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad' }
const save = (
  path: string,
  body: AsyncIterable<Uint8Array>,
  { canOverwrite = false, expected = abc }: { canOverwrite?: boolean; expected?: Parameters<typeof saveFile>[2] } = {},
) => saveFile(body, path, expected, { canOverwrite })

test.each([
  ['report.pdf', 'report.pdf'],
  ['../../etc/passwd', 'passwd'],
  ['C:\\Windows\\system.ini', 'system.ini'],
  ['a\\b.pdf', 'a\\b.pdf'],
  ['\\\\host\\share\\a.pdf', 'a.pdf'],
  ['..\\..\\a.pdf', 'a.pdf'],
  ['a/..\\b.pdf', 'b.pdf'],
  ['/etc/cron.d/', 'document'],
  ['..', '_'],
  ['.bashrc', '_bashrc'],
  ['-rf', '_rf'],
  ['a\u0000b\n\u001b[31m\u202etxt.exe', 'a_b__[31m_txt.exe'],
  ['  ', 'document'],
  ['E\u0301te\u0301.pdf', 'Été.pdf'],
])('the safe name of %j is %j', (name, safe) => {
  expect(safeName(name)).toBe(safe)
})

test('a long name keeps its extension, fits the file system, and is cut between characters', () => {
  const name = safeName(`${'é😀'.repeat(200)}.pdf`)
  expect(Buffer.byteLength(name)).toBeLessThanOrEqual(255)
  expect([name.endsWith('.pdf'), name.isWellFormed()]).toEqual([true, true])
})

test('a complete file, without a temporary file', async () => {
  const path = await folder()
  expect(await save(join(path, 'a'), chunks('a', 'bc'))).toEqual({ bytes: 3, sha256: abc.sha256 })
  expect([await readdir(path), await readFile(join(path, 'a'), 'utf8')]).toEqual([['a'], 'abc'])
})

test.each([
  ['too short', { ...abc, size: 4 }, /received 3 of 4 bytes/],
  ['changed', { ...abc, sha256: '0'.repeat(64) }, /differs from the stored file/],
])('no file is left of one that is %s', async (_, expected, message) => {
  const path = await folder()
  await expect(save(join(path, 'a'), chunks('abc'), { expected })).rejects.toThrow(message)
  expect(await readdir(path)).toEqual([])
})

test('CONFLICT for a file or link created meanwhile; overwriting replaces the link, not its target', async () => {
  const path = await folder()
  await writeFile(join(path, 'mine'), 'mine')
  await symlink(join(path, 'mine'), join(path, 'link'))
  for (const name of ['mine', 'link']) await expect(save(join(path, name), chunks('abc'))).rejects.toMatchObject({ exit: 'CONFLICT' })
  await save(join(path, 'link'), chunks('abc'), { canOverwrite: true })
  expect([await readFile(join(path, 'mine'), 'utf8'), await readFile(join(path, 'link'), 'utf8')]).toEqual(['mine', 'abc'])
  expect((await readdir(path)).sort()).toEqual(['link', 'mine'])
})
