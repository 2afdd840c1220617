/** Rows of stored files: the current address of each SHA-256, and the locks that order uploads and removals. See docs/reliability.md. */
import { randomBytes } from 'node:crypto'
import { type RawBuilder, sql } from 'kysely'
import type { App } from '../app.ts'
import type { Db, Trx } from '../db/pool.ts'
import { prepared } from '../db/pooled.ts'
import type { StoredFile } from '../http/files.ts'
import * as jobs from '../jobs/queue.ts'
import { FileMissing, type StagedFile } from '../ports/file-store.ts'
import type { Document } from './view.ts'

/** Whether a version or a rendition of a document has the bytes of the row `file`. */
export const isReferenced: RawBuilder<boolean> = sql`(exists (select from document_versions version where version.sha256 = file.sha256)
  or exists (select from renditions where renditions.sha256 = file.sha256))`

/** Reference to the file at an address: a version or rendition of a document, a row without one, a requested removal, or none. */
type FileUse = 'version' | 'row' | 'removal' | 'none'

/** Returns the reference to each address. A running backup is not a reference: see removeFiles(). */
export async function usesOf(db: Db, addresses: readonly string[]): Promise<Map<string, FileUse>> {
  const { rows } = await sql<{ address: string; use: FileUse }>`
    select requested.address, case
        when ${isReferenced} then 'version'
        when file.sha256 is not null then 'row'
        when removal.address is not null then 'removal'
        else 'none' end as use
    from unnest(${addresses}::text[]) as requested (address)
    left join stored_files file on file.address = requested.address
    left join file_removals removal on removal.address = requested.address`.execute(db)
  return new Map(rows.map(({ address, use }) => [address, use]))
}

/** Rows read by one query. */
const batchSize = 500

/** Yields every stored file in order of SHA-256. Holds no connection while the caller works. */
export async function* listStoredFiles(db: Db): AsyncGenerator<{ sha256: string; address: string; size: number }> {
  for (let last = ''; ; ) {
    const batch = db.selectFrom('stored_files').select(['sha256', 'address', 'size']).where('sha256', '>', last)
    const rows = await batch.orderBy('sha256').limit(batchSize).execute()
    yield* rows
    if (rows.length < batchSize) return
    last = rows.at(-1)?.sha256 ?? ''
  }
}

/** Returns the address of a SHA-256. Throws FileMissing if it has no row. */
export async function addressOf(db: Db, sha256: string): Promise<string> {
  const row = await db.selectFrom('stored_files').select('address').where('sha256', '=', sha256).executeTakeFirst()
  if (!row) throw new FileMissing(sha256)
  return row.address
}

/** Calls `use` with the address of a SHA-256. Retries with a new address after FileMissing. Throws FileMissing. */
export async function withAddress<T>(db: Db, sha256: string, use: (address: string) => Promise<T>): Promise<T> {
  for (let before = ''; ; ) {
    const address = await addressOf(db, sha256)
    try {
      return await use(address)
    } catch (error) {
      if (!(error instanceof FileMissing) || address === before) throw error
      before = address
    }
  }
}

/** Validity of the URLs that downloads are redirected to. A client has to begin in this time. */
const presignedSecs = 60

/** Opens the file of a document. Throws FileMissing if it is absent or its size is wrong. */
export async function openStoredFile(
  app: App,
  document: Pick<Document, 'sha256' | 'size' | 'filename' | 'mime_type' | 'created_at' | 'file_replaced_at'>,
): Promise<StoredFile> {
  const { sha256, size, filename, mime_type, created_at, file_replaced_at } = document
  const openedAddress = await withAddress(app.reads, sha256, async (address) => {
    if ((await app.files.size(address)) !== size) throw new FileMissing(address)
    return address
  })
  const open: StoredFile['open'] = (range) =>
    app.files.read(openedAddress, range).catch((error) => {
      if (!(error instanceof FileMissing)) throw error
      return withAddress(app.reads, sha256, (address) => app.files.read(address, range))
    })
  const presign: StoredFile['presign'] = (headers) => app.files.presign(openedAddress, presignedSecs, headers)
  const file = { sha256, size, filename, mime_type, modifiedAt: file_replaced_at ?? created_at, open }
  return app.config.storage.redirect_downloads ? { ...file, presign } : file
}

/**
 * Locks the row of a file, and creates it first if there is none. Removals and other uploads of the same bytes wait until the transaction ends.
 * Returns the address of the row: `file.address` if the row is new.
 */
export async function lockOrCreate(trx: Trx, file: { sha256: string; size: number; address: string }): Promise<string> {
  const [[, address] = ['', '']] = await lockOrCreateAll(trx, [file])
  return address
}

/** Locks or creates the rows of files with distinct SHA-256 sums. Returns the address of each sum. */
export async function lockOrCreateAll(
  trx: Trx,
  files: readonly { sha256: string; size: number; address: string }[],
): Promise<Map<string, string>> {
  // Every transaction locks rows in this order: two of them cannot deadlock.
  const sorted = [...files].sort((a, b) => (a.sha256 < b.sha256 ? -1 : 1)).map(({ sha256, size, address }) => ({ sha256, size, address }))
  const { rows } = await sql<{ sha256: string; address: string }>`${prepared}
    insert into stored_files (sha256, size, address)
    select sha256, size, address from jsonb_to_recordset(${JSON.stringify(sorted)}::jsonb) as (sha256 text, size bigint, address text)
    on conflict (sha256) do update set size = stored_files.size returning sha256, address`.execute(trx)
  return new Map(rows.map(({ sha256, address }) => [sha256, address]))
}

/**
 * Ensures that the locked row refers to a file with exactly these bytes; `address` is that of the row. The stored file is kept only if a
 * comparison finds it equal, else the staged bytes replace it and it is removed after the commit. Set `canCompare` only if the owner has
 * the same bytes already: the time of a comparison would reveal files of other users.
 */
export async function ensureBytes(
  app: App,
  trx: Trx,
  staged: StagedFile,
  address: string,
  { canCompare }: { canCompare: boolean },
): Promise<void> {
  if (address === staged.address) return staged.commit()
  if (canCompare) {
    if (await staged.equals(address)) return
    app.log.error({ sha256: staged.sha256, address }, 'a stored file is damaged or missing; the bytes of a new upload take its place')
  }
  await staged.commit()
  await trx.updateTable('stored_files').set({ address: staged.address, size: staged.size }).where('sha256', '=', staged.sha256).execute()
  await requestRemoval(trx, address)
  await jobs.enqueue(trx, 'purge', { sha256: staged.sha256 }, { dedupeKey: `purge:${staged.sha256}` })
}

/** Whether a version of a document of the owner has these bytes. Only then may they be compared: see ensureBytes(). */
const hasBytes = (ownerId: string, sha256: RawBuilder<string>): RawBuilder<boolean> => sql`exists (
  select from document_versions version join documents on documents.id = version.document_id
  where version.sha256 = ${sha256} and documents.owner_id = ${ownerId})`

/** Returns whether the owner has these bytes, in any version of a document. */
export async function isOwned(db: Db, ownerId: string, sha256: string): Promise<boolean> {
  const { rows } = await sql<{ owned: boolean }>`select ${hasBytes(ownerId, sql`${sha256}`)} as owned`.execute(db)
  return rows[0]?.owned === true
}

/** Files of at least this size are compared before the transaction, without a lock. */
const largeBytes = 1 << 20

/** Compares large staged files with the owner's stored files of the same sums. ensureBytes() reuses the results. */
export async function compareLargeFiles(app: App, ownerId: string, staged: readonly StagedFile[]): Promise<void> {
  const large = new Map(staged.filter(({ size }) => size >= largeBytes).map((file) => [file.sha256, file]))
  if (large.size === 0) return
  const { rows } = await sql<{ sha256: string; address: string }>`
    select sha256, address from stored_files file where sha256 = any(${[...large.keys()]}::text[])
      and ${hasBytes(ownerId, sql.ref('file.sha256'))}`.execute(app.db)
  for (const { sha256, address } of rows) await large.get(sha256)?.equals(address)
}

/** Repairs the stored files that are damaged or missing. The owner of each staged file has the same bytes in a document. */
export async function repairDamaged(app: App, staged: readonly StagedFile[]): Promise<void> {
  if (staged.length === 0) return
  const sums = staged.map(({ sha256 }) => sha256)
  const rows = await app.db.selectFrom('stored_files').select(['sha256', 'address']).where('sha256', 'in', sums).execute()
  const addresses = new Map(rows.map(({ sha256, address }) => [sha256, address]))
  for (const file of staged) {
    const address = addresses.get(file.sha256)
    if (address !== undefined && !(await file.equals(address))) await repairStored(app, file)
  }
}

/** Repairs damaged stored bytes from an intact upload that was rejected as a duplicate. */
export async function repairStored(app: App, staged: StagedFile): Promise<void> {
  await app.db.transaction().execute(async (trx) => {
    const stored = await lockExisting(trx, staged.sha256)
    if (stored) await ensureBytes(app, trx, staged, stored.address, { canCompare: true })
  })
  await staged.confirm()
}

/** Locks the row of a SHA-256 and returns its address and size, undefined if there is no row. */
export const lockExisting = (trx: Trx, sha256: string): Promise<{ address: string; size: number } | undefined> =>
  trx.selectFrom('stored_files').select(['address', 'size']).where('sha256', '=', sha256).forUpdate().executeTakeFirst()

/** Locks the existing rows of SHA-256 sums, in the order of lockOrCreateAll(). */
export async function lockAllExisting(trx: Trx, sums: readonly string[]): Promise<void> {
  await sql`select from stored_files where sha256 = any(${sums}::text[]) order by sha256 for update`.execute(trx)
}

/** Requests the removal of a file after the commit. */
export async function requestRemoval(trx: Trx, address: string): Promise<void> {
  await sql`insert into file_removals (address) values (${address}) on conflict do nothing`.execute(trx)
}

/** Returns an unused address, for a row that only locks out uploads of the same bytes. */
export const placeholderAddress = (sha256: string): string => `${sha256}.${randomBytes(16).toString('hex')}`
