/** Reads a backup from its head to its manifest, and compares every byte with the checksums. */
import { createHash } from 'node:crypto'
import { type Bytes, gathered, hashed, lines, skip } from './bytes.ts'
import {
  BackupDamaged,
  type Entry,
  entryAt,
  Head,
  Manifest,
  maxHeadBytes,
  maxManifestBytes,
  maxSecretBytes,
  parsed,
  readSumLine,
  sumLine,
} from './manifest.ts'
import { checkSignature, type SignaturePolicy } from './signature.ts'
import type { Source } from './source.ts'

/** Who takes what is read. Each verb reads `bytes` to their end, or not at all. */
export interface Visitor {
  head(head: Head): Promise<void>
  table(name: string, bytes: Bytes): Promise<void>
  /** `sha256` is where it belongs; whether it holds what it says is known at its end only */
  file(sha256: string, bytes: Bytes): Promise<void>
  secret(name: string, bytes: Buffer): Promise<void>
  /** Something is not as it should be. What throws ends the reading. */
  problem(path: string, what: Problem): void
}

export type Problem = 'missing' | 'corrupt' | 'unknown'

export interface ReadOptions extends SignaturePolicy {
  /** goes on behind an archive's entry whose header is damaged, where the next one begins */
  skipsDamaged: boolean
}

/** Reads it all; returns the manifest. Throws BackupDamaged where it ends too early, cannot be understood, or is not signed as `options` ask for; all else goes to `visitor.problem`. */
export async function readBackup(source: Source, visitor: Visitor, options: ReadOptions): Promise<Manifest> {
  const told = new Set<string>()
  const problem: Visitor['problem'] = (path, what) => {
    if (told.has(path)) return
    told.add(path)
    visitor.problem(path, what)
  }
  const listing = createHash('sha256')
  /** what is not a stored file with the bytes that its name says: known to be right or wrong once the list has come */
  const open = new Map<string, string>()
  /** stored files that are not what their name says, by path */
  const corrupt = new Map<string, string>()
  let head: Head | null = null
  let manifest: Manifest | null = null
  let sums: { sha256: string } | null = null
  let hasGap = false

  for await (const { path, bytes } of source.entries({ skipsDamaged: options.skipsDamaged })) {
    if (path === '') {
      hasGap = true
      problem('(the header of an entry)', 'corrupt')
      continue
    }
    const entry = entryAt(path)
    if (!entry || (head && 'id' in entry && entry.id !== head.id)) {
      problem(path, 'unknown')
      continue
    }
    refuseOrder(path, entry, { head, isListed: sums !== null, hasManifest: manifest !== null, hasGap, isKnown: open.has(path) })
    if (entry.kind === 'manifest') {
      const text = (await gathered(bytes ?? [], maxManifestBytes, path)).toString()
      manifest = parsed(Manifest, path, text)
      checkSignature(text, options)
      continue
    }
    if (bytes === null) {
      problem(path, 'missing')
      open.set(path, '')
      continue
    }
    const passing = hashed(bytes)
    if (entry.kind === 'head') {
      head = parsed(Head, path, (await gathered(passing.bytes, maxHeadBytes, path)).toString())
      await visitor.head(head)
    } else if (entry.kind === 'sums') sums = await compare(passing.bytes, open, problem)
    else if (entry.kind === 'table') await visitor.table(entry.table, passing.bytes)
    else if (entry.kind === 'file') await visitor.file(entry.sha256, passing.bytes)
    else if (entry.kind === 'secret') await visitor.secret(entry.name, await gathered(passing.bytes, maxSecretBytes, path))
    await skip(passing.bytes)
    if (entry.kind === 'sums') continue
    listing.update(sumLine(passing.digest(), path))
    if (entry.kind !== 'file' || passing.digest() !== entry.sha256) open.set(path, passing.digest())
    if (entry.kind === 'file' && passing.digest() !== entry.sha256) corrupt.set(path, entry.sha256)
  }
  if (!head || !manifest || !sums) throw new BackupDamaged('ends before its manifest: it was never finished, or was cut off')
  if (manifest.id !== head.id) throw new BackupDamaged('its manifest belongs to another backup')
  const known = new Set(manifest.damaged.map(({ sha256 }) => sha256))
  for (const [path, sha256] of corrupt) if (!known.has(sha256)) problem(path, 'corrupt')
  // The list has a checksum of its own, and names every entry in order: nothing can be missing in between.
  if (sums.sha256 !== manifest.sums.sha256) problem(manifest.sums.path, 'corrupt')
  else if (told.size === 0 && listing.digest('hex') !== sums.sha256) problem(manifest.sums.path, 'missing')
  return manifest
}

interface Position {
  head: Head | null
  isListed: boolean
  hasManifest: boolean
  hasGap: boolean
  isKnown: boolean
}

/** Throws BackupDamaged for an entry that a backup of dms never has at this place, such as a second one of the same name. */
function refuseOrder(path: string, { kind }: Entry, { head, isListed, hasManifest, hasGap, isKnown }: Position): void {
  if (!head && kind !== 'head') throw new BackupDamaged(`begins with ${path}, not with its head`)
  if (isKnown || (kind === 'head' && head) || (kind === 'sums' && isListed)) throw new BackupDamaged(`has ${path} twice`)
  if (hasManifest || (isListed && kind !== 'manifest')) throw new BackupDamaged(`has ${path} behind its end`)
  // What lies behind may be inside of a stored file that is a backup itself.
  if (hasGap && !['file', 'sums', 'manifest'].includes(kind)) throw new BackupDamaged(`has a damaged header before ${path}`)
}

/** Tells of every entry that is not as the list says, and of tables and settings that only the list knows. Missing stored files are told of by whoever looks for them. */
async function compare(bytes: Bytes, open: Map<string, string>, problem: Visitor['problem']): Promise<{ sha256: string }> {
  const passing = hashed(bytes)
  for await (const line of lines(passing.bytes)) {
    const { sha256, path } = readSumLine(line)
    const actual = open.get(path)
    if (actual === undefined) {
      if (path.startsWith('data/')) problem(path, 'missing')
      continue
    }
    open.delete(path)
    if (actual !== sha256 && actual !== '') problem(path, 'corrupt')
  }
  for (const [path, actual] of open) if (actual !== '') problem(path, 'unknown')
  return { sha256: passing.digest() }
}
