/** Crafted backups: unpacked, changed, and packed again with valid checksums. */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { formatChecksumLine, headPath } from '../../../src/backup/manifest.ts'
import { readTar } from '../../../src/backup/tar.ts'
import { tarEnd, tarHeader, tarPadding } from '../../../src/http/tar-writer.ts'

export interface Entry {
  path: string
  bytes: Buffer
}

/** Entries of an archive, in order. */
export async function entriesOf(archive: string): Promise<Entry[]> {
  const entries: Entry[] = []
  for await (const { path, bytes } of readTar(createReadStream(archive)))
    entries.push({ path, bytes: Buffer.concat(await Array.fromAsync(bytes)) })
  return entries
}

export const entryOf = (entries: readonly Entry[], pattern: RegExp): Entry => {
  const found = entries.find(({ path }) => pattern.test(path))
  if (!found) throw new Error(`no entry ${pattern}`)
  return found
}

/** Updates list and manifest to match the other entries; `more` replaces fields of the manifest, and of the head if it has them. */
export function consistent(entries: readonly Entry[], more: Record<string, unknown> = {}): Entry[] {
  const manifest = JSON.parse(entryOf(entries, /^manifest/).bytes.toString()) as { id: string; sums: { path: string } }
  const head = JSON.parse(entryOf(entries, /head\.json$/).bytes.toString()) as Record<string, unknown>
  for (const key of Object.keys(more)) if (key in head) head[key] = more[key]
  const changed = entries.map((entry) =>
    entry.path === headPath(manifest.id) ? { ...entry, bytes: Buffer.from(JSON.stringify(head)) } : entry,
  )
  const listed = changed.filter(({ path }) => !/SHA256SUMS$|^manifest/.test(path))
  const list = Buffer.from(listed.map(({ path, bytes }) => formatChecksumLine(hash(bytes), path)).join(''))
  const sums = { path: manifest.sums.path, sha256: hash(list) }
  return [
    ...listed,
    { path: sums.path, bytes: list },
    { path: 'manifest.json', bytes: Buffer.from(JSON.stringify({ ...manifest, ...more, sums }, null, 1)) },
  ]
}

/** Returns the archive of these entries, unchanged. */
export const archiveOf = (entries: readonly Entry[]): Buffer =>
  Buffer.concat([...entries.flatMap(({ path, bytes }) => [tarHeader(path, bytes.length, 0), bytes, tarPadding(bytes.length)]), tarEnd])

/** A header of another type, such as `1` (hard link) or `2` (symbolic link). */
export function linkHeader(path: string, to: string, type: '1' | '2'): Buffer {
  const header = tarHeader(path, 0, 0)
  header.write(type, 156)
  header.write(to, 157)
  header.write('        ', 148)
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
  return header
}

export const hash = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')
