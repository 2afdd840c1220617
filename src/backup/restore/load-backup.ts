/** Loads a backup into the database and the document store, in one transaction. */
import { Kysely, PostgresDialect, sql } from 'kysely'
import pg, { type PoolClient } from 'pg'
import type { Trx } from '../../db/pool.ts'
import type { Schema } from '../../db/schema.ts'
import type { Commit } from '../../files/restore-marker.ts'
import { dms } from '../../log/fix.ts'
import type { Installation } from '../../open-app.ts'
import type { FileStore } from '../../ports/file-store.ts'
import type { BackupSource } from '../backup-source.ts'
import { type Bytes, drain } from '../byte-streams.ts'
import { BackupDamaged, type Head, type Manifest, parseEntryPath } from '../manifest.ts'
import { type BackupVisitor, readBackup } from '../read-backup.ts'
import type { SignaturePolicy } from '../signature.ts'
import { readCommitId } from './commit-outcome.ts'
import { createSecretWriter, openFileWriter } from './file-writer.ts'
import { findLostDocuments, type LostDocument } from './find-lost-documents.ts'
import { assertHashColumns, type DisabledSource, prepareSchema, upgradeRows } from './prepare-schema.ts'
import { openRowWriter } from './row-writer.ts'
import type { StoreClaim } from './store-claim.ts'

export interface LoadOptions extends SignaturePolicy {
  /** skip stored files that are damaged in the backup, instead of aborting */
  skipsDamaged: boolean
  /** keep sources enabled */
  keepsSources: boolean
  /** compares the restored data; then the transaction is rolled back and the files stay */
  inspector?: LoadInspector
  signal: AbortSignal
  onHead(head: Head): void
  onProgress(state: { done: number; total: number; bytes: number; totalBytes: number }): void
}

export interface LoadInspector {
  /** Passes the rows of a table through. */
  teeRows(table: string, bytes: Bytes): Bytes
  /** Runs before migrations change the rows. */
  afterRows(client: PoolClient, head: Head): Promise<void>
  afterFiles(trx: Trx, files: FileStore, signal: AbortSignal): Promise<void>
}

export interface RestoreResult {
  manifest: Manifest
  /** tables that dms does not know and that were skipped */
  ignored: string[]
  /** damaged entries that were skipped */
  skipped: { path: string; problem: string }[]
  /** documents and versions without a stored file: it was damaged in the backup or before it */
  lost: LostDocument[]
  /** keys that were not replaced because the data directory has its own */
  keptSecrets: string[]
  disabledSources: DisabledSource[]
}

/** The connection was lost between COMMIT and its answer. */
export class CommitUnanswered extends Error {
  readonly commit: Commit
  readonly restored: RestoreResult
  /** removes the written secrets */
  readonly removeSecrets: () => Promise<void>

  constructor(commit: Commit, restored: RestoreResult, undo: () => Promise<void>, cause: unknown) {
    super('the answer to COMMIT was lost', { cause })
    this.name = 'CommitUnanswered'
    this.commit = commit
    this.restored = restored
    this.removeSecrets = undo
  }
}

/** Returns the generation in the addresses of all files that this restore writes, which identifies them. */
export const toGeneration = (storeId: string): string => storeId.replaceAll('-', '')

/** Throws CommitUnanswered if the commit may have happened. After any other error nothing was committed. `claim`: on the store; null for a rehearsal. */
export async function loadBackup(
  installation: Installation,
  source: BackupSource,
  storeId: string,
  claim: StoreClaim | null,
  options: LoadOptions,
): Promise<RestoreResult> {
  const client = (await installation.database.connect('dms restore')) as unknown as PoolClient
  const db = createSingleConnectionDb(client)
  const secrets = createSecretWriter(installation.config.data_dir)
  let sentCommit: { commit: Commit; restored: RestoreResult } | null = null
  try {
    return await db.transaction().execute(async (trx) => {
      const restored = await loadEntries({ installation, trx, client, storeId, secrets, options }, source)
      if (options.inspector) throw new RollbackWithResult(restored)
      const commit = await readCommitId(client)
      await claim?.seal(commit)
      options.signal.throwIfAborted()
      sentCommit = { commit, restored }
      return restored
    })
  } catch (error) {
    const { commit, restored } = (sentCommit ?? {}) as { commit?: Commit; restored?: RestoreResult }
    if (commit && restored) throw new CommitUnanswered(commit, restored, secrets.remove, error)
    await secrets.remove()
    if (error instanceof RollbackWithResult) return error.restored
    throw toLoadError(error, source)
  } finally {
    await client.end().catch(() => {})
  }
}

/** Thrown to roll the transaction back after an inspection. */
class RollbackWithResult extends Error {
  readonly restored: RestoreResult

  constructor(restored: RestoreResult) {
    super('rehearsed')
    this.restored = restored
  }
}

/** Returns a Kysely on one connection, so that statements and COPY share a transaction. */
function createSingleConnectionDb(client: PoolClient): Kysely<Schema> {
  const pool = { connect: async () => Object.assign(client, { release() {} }), end: async () => {} }
  return new Kysely<Schema>({ dialect: new PostgresDialect({ pool: pool as never }) })
}

/** Returns true for entries that a restore can skip: not tables, and not the entries that prove them complete. */
const isSkippable = (path: string): boolean => !['head', 'table', 'manifest'].includes(parseEntryPath(path)?.kind ?? '')

interface LoadContext {
  readonly installation: Installation
  readonly trx: Trx
  /** connection of `trx` */
  readonly client: PoolClient
  readonly storeId: string
  readonly secrets: ReturnType<typeof createSecretWriter>
  readonly options: LoadOptions
}

async function loadEntries(context: LoadContext, source: BackupSource): Promise<RestoreResult> {
  const { installation, trx, client, storeId, secrets, options } = context
  await sql`set local statement_timeout = 0`.execute(trx)
  await sql`set local idle_in_transaction_session_timeout = 0`.execute(trx)
  const files = openFileWriter(installation.files, toGeneration(storeId), options.signal)
  const rows = openRowWriter(client)
  const skipped: RestoreResult['skipped'] = []
  try {
    const manifest = await readBackup(source, createVisitor(context, rows, files, skipped), options)
    await rows.end()
    await files.end((sha256) => hasStoredFile(trx, sha256))
    assertRowCounts(manifest, rows)
    await assertHashColumns(client)
    await options.inspector?.afterRows(client, manifest)
    const disabledSources = await upgradeRows(trx, manifest, { storeId, keepsSources: options.keepsSources })
    // Restored files have new addresses. Without files, the operator copies the store with its old addresses.
    let lost: LostDocument[] = []
    if (manifest.has_files) {
      await sql`update stored_files set address = sha256 || '.' || ${toGeneration(storeId)}`.execute(trx)
      lost = await findLostDocuments(trx, installation.files, { ...options, manifest, skipped })
      await options.inspector?.afterFiles(trx, installation.files, options.signal)
    }
    const keptSecrets = await secrets.write()
    return { manifest, ignored: [...rows.ignored], skipped, lost, keptSecrets, disabledSources }
  } catch (error) {
    await rows.abort()
    await files.abort()
    throw error
  }
}

/** Returns a visitor that writes the entries to `rows`, `files` and the secrets, and lists damaged ones in `skipped`. */
function createVisitor(
  { trx, client, secrets, options }: LoadContext,
  rows: ReturnType<typeof openRowWriter>,
  files: ReturnType<typeof openFileWriter>,
  skipped: RestoreResult['skipped'],
): BackupVisitor {
  let head: Head | null = null
  let done = 0
  let bytes = 0
  return {
    async head(backupHead) {
      head = backupHead
      options.onHead(backupHead)
      await prepareSchema(trx, client, backupHead)
    },
    async table(name, part) {
      options.signal.throwIfAborted()
      const tee = options.inspector?.teeRows(name, part) ?? part
      await rows.put(head?.tables.find((table) => table.name === name) ?? { name, columns: [] }, tee)
      await drain(tee)
    },
    async file(sha256, content) {
      await rows.end()
      bytes += await files.put(sha256, content)
      options.onProgress({ done: ++done, total: head?.files ?? 0, bytes, totalBytes: head?.bytes ?? 0 })
    },
    async secret(name, content) {
      secrets.add(name, content)
    },
    report(path, problem) {
      if (!options.skipsDamaged) throw new BackupDamaged(`${path} is ${problem}`, isSkippable(path) ? skipFix : undefined)
      if (!isSkippable(path) || (options.key && parseEntryPath(path)?.kind === 'sums'))
        throw new BackupDamaged(`${path} is ${problem}; without it the rows cannot be verified`)
      if (parseEntryPath(path)?.kind === 'secret') secrets.discard(path)
      skipped.push({ path, problem })
    },
  }
}

const hasStoredFile = async (trx: Trx, sha256: string): Promise<boolean> =>
  (await trx.selectFrom('stored_files').select('sha256').where('sha256', '=', sha256).executeTakeFirst()) !== undefined

/** Throws BackupDamaged if a table has another row count than the manifest, or is missing although it had rows. */
function assertRowCounts(
  { rows }: Manifest,
  { counts, ignored }: { readonly counts: ReadonlyMap<string, number>; readonly ignored: ReadonlySet<string> },
): void {
  for (const table of new Set([...Object.keys(rows), ...counts.keys()])) {
    const [count, expected] = [counts.get(table) ?? 0, rows[table]]
    if (count !== expected && !ignored.has(table))
      throw new BackupDamaged(`the table ${table} has ${count} rows, and should have ${expected ?? 'none'}`)
  }
}

const skipFix = [dms`restore --skip-damaged`, ' restores all the rest']

/** Reports rows that the database rejects as damage of the backup. */
function toLoadError(error: unknown, source: BackupSource): unknown {
  const isRefused = error instanceof Error && /^(22|23|42)/.test(String(databaseErrorCode(error)))
  if (!(error instanceof BackupDamaged) && !isRefused) return error
  const fix = error instanceof BackupDamaged ? error.fix : undefined
  return Object.assign(new BackupDamaged(`${source.name}: ${error.message}; nothing was restored`, fix), { cause: error })
}

const databaseErrorCode = (error: Error): unknown =>
  (error.cause instanceof pg.DatabaseError ? error.cause : (error as { code?: unknown })).code
