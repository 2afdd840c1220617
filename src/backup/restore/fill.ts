/** Reads a backup into the database and the document store, in one transaction. */
import { Kysely, PostgresDialect, sql } from 'kysely'
import pg, { type PoolClient } from 'pg'
import type { Trx } from '../../db/pool.ts'
import type { Schema } from '../../db/schema.ts'
import { type Commit, noteClaim } from '../../files/restore-marker.ts'
import type { Places } from '../../open-app.ts'
import type { FileStore } from '../../ports/file-store.ts'
import { type Bytes, skip } from '../bytes.ts'
import { BackupDamaged, entryAt, type Head, type Manifest } from '../manifest.ts'
import { readBackup } from '../read.ts'
import type { SignaturePolicy } from '../signature.ts'
import type { Source } from '../source.ts'
import { commitOf } from './commit-outcome.ts'
import { findLost, type LostDocument } from './lost-documents.ts'
import { bringForward, checkContents, type DisabledSource, prepareSchema } from './prepare-schema.ts'
import { putFiles } from './put-files.ts'
import { putRows } from './put-rows.ts'
import { restoredSecrets } from './restored-secrets.ts'

export interface FillOptions extends SignaturePolicy {
  /** leaves out stored files that are damaged in the backup, instead of refusing it */
  skipsDamaged: boolean
  /** leaves sources as they were, instead of disabling them */
  keepsSources: boolean
  /** looks at what was restored; then it is rolled back, and the files stay */
  inspector?: Inspector
  signal: AbortSignal
  onHead(head: Head): void
  onProgress(state: { done: number; total: number; bytes: number; totalBytes: number }): void
}

export interface Inspector {
  /** sees the rows of a table on their way in */
  pass(table: string, bytes: Bytes): Bytes
  /** before anything has changed them */
  afterRows(client: PoolClient, head: Head): Promise<void>
  afterFiles(trx: Trx, files: FileStore, signal: AbortSignal): Promise<void>
}

export interface Restored {
  manifest: Manifest
  /** tables of the backup that are none of dms, and were left out */
  ignored: string[]
  /** entries of the backup that are damaged and were left out */
  skipped: { path: string; problem: string }[]
  /** documents without a file: it was damaged in the backup, or before it was made */
  lost: LostDocument[]
  /** keys that the backup has, but this place has its own */
  keptSecrets: string[]
  disabledSources: DisabledSource[]
}

/** The connection was lost between COMMIT and its answer. */
export class CommitUnanswered extends Error {
  readonly commit: Commit
  readonly restored: Restored
  /** takes back what is neither in the database nor in the document store */
  readonly undo: () => Promise<void>

  constructor(commit: Commit, restored: Restored, undo: () => Promise<void>, cause: unknown) {
    super('the answer to COMMIT was lost', { cause })
    this.name = 'CommitUnanswered'
    this.commit = commit
    this.restored = restored
    this.undo = undo
  }
}

/** The generation in the addresses of all files that a restore writes: what it has written can be told by it. */
export const generationOf = (storeId: string): string => storeId.replaceAll('-', '')

/** Throws CommitUnanswered; anything else that it throws means that nothing was committed. `folder`: of the store, null where it has none. */
export async function fill(
  places: Places,
  source: Source,
  storeId: string,
  folder: string | null,
  options: FillOptions,
): Promise<Restored> {
  const client = (await places.database.connect('dms restore')) as unknown as PoolClient
  const db = onOneConnection(client)
  const secrets = restoredSecrets(places.config.data_dir)
  let sent: { commit: Commit; restored: Restored } | null = null
  try {
    return await db.transaction().execute(async (trx) => {
      const restored = await read(places, trx, client, source, storeId, options, secrets)
      if (options.inspector) throw new Rehearsed(restored)
      const commit = await commitOf(client)
      if (folder) await noteClaim(folder, { store_id: storeId, commit })
      options.signal.throwIfAborted()
      sent = { commit, restored }
      return restored
    })
  } catch (error) {
    const { commit, restored } = (sent ?? {}) as { commit?: Commit; restored?: Restored }
    if (commit && restored) throw new CommitUnanswered(commit, restored, secrets.remove, error)
    await secrets.remove()
    if (error instanceof Rehearsed) return error.restored
    throw toldOf(error, source)
  } finally {
    await client.end().catch(() => {})
  }
}

/** Rolls back what was restored for an inspector. */
class Rehearsed extends Error {
  readonly restored: Restored

  constructor(restored: Restored) {
    super('rehearsed')
    this.restored = restored
  }
}

/** One connection for statements and for COPY: both are of the same transaction. */
export function onOneConnection(client: PoolClient): Kysely<Schema> {
  const pool = { connect: async () => Object.assign(client, { release() {} }), end: async () => {} }
  return new Kysely<Schema>({ dialect: new PostgresDialect({ pool: pool as never }) })
}

/** What of the backup may be left out: everything but tables, and what tells that they are whole. */
const isBearable = (path: string): boolean => !['head', 'table', 'manifest'].includes(entryAt(path)?.kind ?? '')

async function read(
  places: Places,
  trx: Trx,
  client: PoolClient,
  source: Source,
  storeId: string,
  options: FillOptions,
  secrets: ReturnType<typeof restoredSecrets>,
): Promise<Restored> {
  await sql`set local statement_timeout = 0`.execute(trx)
  await sql`set local idle_in_transaction_session_timeout = 0`.execute(trx)
  const files = putFiles(places.files, generationOf(storeId), options.signal)
  const rows = putRows(client)
  const skipped: Restored['skipped'] = []
  let head: Head | null = null
  let [done, bytes] = [0, 0]
  try {
    const visitor: Parameters<typeof readBackup>[1] = {
      async head(found) {
        head = found
        options.onHead(found)
        await prepareSchema(trx, client, found)
      },
      async table(name, part) {
        options.signal.throwIfAborted()
        const passing = options.inspector?.pass(name, part) ?? part
        await rows.put(head?.tables.find((table) => table.name === name) ?? { name, columns: [] }, passing)
        await skip(passing)
      },
      async file(sha256, content) {
        await rows.end()
        bytes += await files.put(sha256, content)
        options.onProgress({ done: ++done, total: head?.files ?? 0, bytes, totalBytes: head?.bytes ?? 0 })
      },
      async secret(name, content) {
        secrets.add(name, content)
      },
      problem(path, problem) {
        if (!options.skipsDamaged) throw withFix(`${path} is ${problem}`, isBearable(path))
        if (!isBearable(path) || (options.key && entryAt(path)?.kind === 'sums'))
          throw withFix(`${path} is ${problem}, and without it nothing tells that the rows are whole`, false)
        if (entryAt(path)?.kind === 'secret') secrets.drop(path)
        skipped.push({ path, problem })
      },
    }
    const manifest = await readBackup(source, visitor, options)
    await rows.end()
    await files.end()
    refuseRowCounts(manifest, rows.counts)
    await checkContents(client)
    if (head) await options.inspector?.afterRows(client, head)
    const disabledSources = await bringForward(trx, manifest, { storeId, keepsSources: options.keepsSources })
    // Files that came along are new ones here. Where only tables came, whoever brings the files has them under the addresses of then.
    if (manifest.has_files) await sql`update stored_files set address = sha256 || '.' || ${generationOf(storeId)}`.execute(trx)
    const lost = manifest.has_files ? await findLost(trx, places.files, { manifest, skipped, skipsDamaged: options.skipsDamaged }) : []
    if (manifest.has_files) await options.inspector?.afterFiles(trx, places.files, options.signal)
    const keptSecrets = await secrets.write()
    return { manifest, ignored: [...rows.ignored], skipped, lost, keptSecrets, disabledSources }
  } catch (error) {
    await rows.abort()
    await files.settle()
    throw error
  }
}

/** Throws BackupDamaged where a table has more or fewer rows than the backup says. */
function refuseRowCounts({ rows }: Manifest, counts: ReadonlyMap<string, number>): void {
  for (const [table, count] of counts)
    if (rows[table] !== count) throw new BackupDamaged(`the table ${table} has ${count} rows, and should have ${rows[table] ?? 'none'}`)
}

const withFix = (message: string, isBearable: boolean): Error =>
  Object.assign(new BackupDamaged(message), isBearable ? { fix: 'dms restore --skip-damaged restores all the rest' } : {})

/** Rows that the database does not take are damage of the backup, too. */
function toldOf(error: unknown, source: Source): unknown {
  const isRefused = error instanceof Error && /^(22|23|42)/.test(String(causeCode(error)))
  if (!(error instanceof BackupDamaged) && !isRefused) return error
  const { fix } = error as { fix?: string }
  const message = `${source.name}: ${error.message}; nothing was restored`
  return Object.assign(new BackupDamaged(message), { cause: error }, fix === undefined ? {} : { fix })
}

const causeCode = (error: Error): unknown => (error.cause instanceof pg.DatabaseError ? error.cause : (error as { code?: unknown })).code
