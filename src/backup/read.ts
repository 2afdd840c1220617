/** Reads a backup from its head to its manifest, and holds every byte against the checksums. */
import { createHash } from 'node:crypto'
import { type Bytes, gathered, hashed, lines, skip } from './bytes.ts'
import { BackupDamaged, entryAt, Head, Manifest, parsed, sumLine } from './manifest.ts'
import type { Source } from './source.ts'

/** Who takes what is read. Each verb reads `bytes` to their end, or not at all. */
export interface Visitor {
  head(head: Head): Promise<void>
  table(name: string, bytes: Bytes): Promise<void>
  /** `sha256` is where it belongs; whether it holds what it says is known at its end only */
  file(sha256: string, bytes: Bytes): Promise<void>
  secret(name: string, bytes: Bytes): Promise<void>
  /** Something is not as it should be. What throws ends the reading. */
  problem(path: string, what: 'missing' | 'corrupt' | 'unknown'): void
}

/** Reads it all; returns the manifest. Throws BackupDamaged where it ends too early or cannot be understood; all else goes to `taker.problem`. */
export async function readBackup(source: Source, taker: Visitor): Promise<Manifest> {
  let problems = 0
  const problem: Visitor['problem'] = (path, what) => {
    problems++
    taker.problem(path, what)
  }
  const visitor = { ...taker, problem }
  const listing = createHash('sha256')
  /** what is not a stored file with the bytes that its name says: known to be right or wrong once the list has come */
  const open = new Map<string, string>()
  let head: Head | null = null
  let manifest: Manifest | null = null
  let sums: { sha256: string } | null = null

  for await (const { path, bytes } of source.entries()) {
    const entry = entryAt(path)
    if (!entry) {
      visitor.problem(path, 'unknown')
      continue
    }
    if (entry.kind === 'manifest') {
      manifest = parsed(Manifest, path, (await gathered(bytes ?? [])).toString())
      continue
    }
    if (bytes === null) {
      visitor.problem(path, 'missing')
      open.set(path, '')
      continue
    }
    if (!head && entry.kind !== 'head') throw new BackupDamaged(`begins with ${path}, not with its head`)
    const passing = hashed(bytes)
    if (entry.kind === 'head') {
      head = parsed(Head, path, (await gathered(passing.bytes)).toString())
      await visitor.head(head)
    } else if (entry.kind === 'sums') sums = await compare(passing.bytes, open, visitor)
    else if (entry.kind === 'table') await visitor.table(entry.table, passing.bytes)
    else if (entry.kind === 'file') await visitor.file(entry.sha256, passing.bytes)
    else if (entry.kind === 'secret') await visitor.secret(entry.name, passing.bytes)
    await skip(passing.bytes)
    if (entry.kind === 'sums') continue
    listing.update(sumLine(passing.digest(), path))
    if (entry.kind !== 'file' || passing.digest() !== entry.sha256) open.set(path, passing.digest())
  }
  if (!head || !manifest || !sums) throw new BackupDamaged('ends before its manifest: it was never finished, or was cut off')
  // The list has a sum of its own, and says of everything else what it must be, in order: nothing can be missing in between.
  if (sums.sha256 !== manifest.sums.sha256) visitor.problem(manifest.sums.path, 'corrupt')
  else if (problems === 0 && listing.digest('hex') !== sums.sha256) visitor.problem(manifest.sums.path, 'missing')
  return manifest
}

/** Crosses off what is as the list says, and tells of what is not; what only the list knows is missing. */
async function compare(bytes: Bytes, open: Map<string, string>, visitor: Visitor): Promise<{ sha256: string }> {
  const passing = hashed(bytes)
  for await (const line of lines(passing.bytes)) {
    const [sha256, path] = [line.slice(0, 64), line.slice(66)]
    const actual = open.get(path)
    if (actual === undefined) continue
    open.delete(path)
    if (actual !== sha256 && actual !== '') visitor.problem(path, 'corrupt')
  }
  for (const [path, actual] of open) if (actual !== '') visitor.problem(path, 'unknown')
  return { sha256: passing.digest() }
}
