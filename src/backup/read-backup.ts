/** Reads a backup from its head to its manifest and verifies the checksum of every entry. */
import { createHash } from 'node:crypto'
import type { BackupSource } from './backup-source.ts'
import { type Bytes, drain, readAll, readLines, teeHash } from './byte-streams.ts'
import {
  BackupDamaged,
  type Entry,
  formatChecksumLine,
  Head,
  Manifest,
  maxHeadBytes,
  maxManifestBytes,
  maxSecretBytes,
  parseChecksumLine,
  parseEntryPath,
  parseJson,
} from './manifest.ts'
import { checkSignature, type SignaturePolicy } from './signature.ts'

/** Receives the entries. Each method reads `bytes` completely or not at all. */
export interface BackupVisitor {
  head(head: Head): Promise<void>
  table(name: string, bytes: Bytes): Promise<void>
  /** `sha256` comes from the path of the entry. Whether the bytes match is known only after the last one. */
  file(sha256: string, bytes: Bytes): Promise<void>
  secret(name: string, bytes: Buffer): Promise<void>
  /** Reports a damaged, missing or unknown entry. May throw to stop reading. */
  report(path: string, what: Problem): void
}

export type Problem = 'missing' | 'corrupt' | 'unknown'

export interface ReadOptions extends SignaturePolicy {
  /** resumes at the next readable entry after a damaged tar header */
  skipsDamaged: boolean
}

/** Reads the whole backup and returns its manifest. Throws BackupDamaged for a truncated or unreadable backup and for a wrong signature. Reports other damage to `visitor.report`. */
export async function readBackup(source: BackupSource, visitor: BackupVisitor, options: ReadOptions): Promise<Manifest> {
  const reportedPaths = new Set<string>()
  const problem: BackupVisitor['report'] = (path, what) => {
    if (reportedPaths.has(path)) return
    reportedPaths.add(path)
    visitor.report(path, what)
  }
  const listHash = createHash('sha256')
  /** hashes of entries still to be compared with SHA256SUMS, by path; '' for a missing entry. Intact stored files are left out. */
  const unlistedHashes = new Map<string, string>()
  /** expected SHA-256 of stored files with other contents, by path */
  const mismatchedFiles = new Map<string, string>()
  const state: ReadState = { head: null, manifest: null, checksums: null, hasGap: false }

  for await (const { path, bytes } of source.entries({ skipsDamaged: options.skipsDamaged })) {
    if (path === '') {
      state.hasGap = true
      problem('(the header of an entry)', 'corrupt')
      continue
    }
    const entry = parseEntryPath(path)
    if (!entry || (state.head && 'id' in entry && entry.id !== state.head.id)) {
      problem(path, 'unknown')
      continue
    }
    assertEntryOrder(path, entry, state, unlistedHashes.has(path))
    if (entry.kind === 'manifest') {
      const text = (await readAll(bytes ?? [], maxManifestBytes, path)).toString()
      state.manifest = parseJson(Manifest, path, text)
      checkSignature(text, options)
      continue
    }
    if (bytes === null) {
      problem(path, 'missing')
      unlistedHashes.set(path, '')
      continue
    }
    const tee = teeHash(bytes)
    if (entry.kind === 'head') {
      state.head = parseJson(Head, path, (await readAll(tee.bytes, maxHeadBytes, path)).toString())
      await visitor.head(state.head)
    } else if (entry.kind === 'sums') state.checksums = await compareChecksums(tee.bytes, unlistedHashes, problem)
    else await visitEntry(visitor, path, entry, tee.bytes)
    await drain(tee.bytes)
    if (entry.kind === 'sums') continue
    const sha256 = tee.digest()
    listHash.update(formatChecksumLine(sha256, path))
    if (entry.kind === 'file' && sha256 === entry.sha256) continue
    unlistedHashes.set(path, sha256)
    if (entry.kind === 'file') mismatchedFiles.set(path, entry.sha256)
  }
  const { head, manifest, checksums } = state
  if (!head || !manifest || !checksums) throw new BackupDamaged('ends before its manifest: it was not finished, or was truncated')
  if (manifest.id !== head.id) throw new BackupDamaged('its manifest belongs to another backup')
  const knownDamage = new Set(manifest.damaged.map(({ sha256 }) => sha256))
  for (const [path, sha256] of mismatchedFiles) if (!knownDamage.has(sha256)) problem(path, 'corrupt')
  // SHA256SUMS names every entry in order. Its own checksum is in the manifest, so no entry can be missing.
  if (checksums.sha256 !== manifest.sums.sha256) problem(manifest.sums.path, 'corrupt')
  else if (reportedPaths.size === 0 && listHash.digest('hex') !== checksums.sha256) problem(manifest.sums.path, 'missing')
  return manifest
}

/** What has been read so far. */
interface ReadState {
  head: Head | null
  checksums: { sha256: string } | null
  manifest: Manifest | null
  /** whether a damaged tar header was skipped */
  hasGap: boolean
}

/** Passes the bytes of a table, a stored file or a secret to the visitor. */
async function visitEntry(visitor: BackupVisitor, path: string, entry: Entry, bytes: Bytes): Promise<void> {
  if (entry.kind === 'table') await visitor.table(entry.table, bytes)
  else if (entry.kind === 'file') await visitor.file(entry.sha256, bytes)
  else if (entry.kind === 'secret') await visitor.secret(entry.name, await readAll(bytes, maxSecretBytes, path))
}

/** Throws BackupDamaged for an entry out of order or a duplicate. */
function assertEntryOrder(path: string, { kind }: Entry, { head, checksums, manifest, hasGap }: ReadState, isKnown: boolean): void {
  if (!head && kind !== 'head') throw new BackupDamaged(`begins with ${path}, not with its head`)
  if (isKnown || (kind === 'head' && head) || (kind === 'sums' && checksums)) throw new BackupDamaged(`has ${path} twice`)
  if (manifest || (checksums && kind !== 'manifest')) throw new BackupDamaged(`has ${path} after its end`)
  // After a damaged header, tables or settings may come from a backup that is itself a stored file.
  if (hasGap && !['file', 'sums', 'manifest'].includes(kind)) throw new BackupDamaged(`has a damaged header before ${path}`)
}

/** Compares SHA256SUMS with the entries read so far. Reports wrong, unlisted and missing entries, except missing stored files: the caller finds them. */
async function compareChecksums(bytes: Bytes, open: Map<string, string>, problem: BackupVisitor['report']): Promise<{ sha256: string }> {
  const tee = teeHash(bytes)
  for await (const line of readLines(tee.bytes)) {
    const { sha256, path } = parseChecksumLine(line)
    const actual = open.get(path)
    if (actual === undefined) {
      if (path.startsWith('data/')) problem(path, 'missing')
      continue
    }
    open.delete(path)
    if (actual !== sha256 && actual !== '') problem(path, 'corrupt')
  }
  for (const [path, actual] of open) if (actual !== '') problem(path, 'unknown')
  return { sha256: tee.digest() }
}
