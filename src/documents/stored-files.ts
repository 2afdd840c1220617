/** Rows of stored files: which address the bytes of a SHA-256 have now, and the order in which rows, bytes and removals change. See docs/reliability.md. */
import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import type { Db, Trx } from '../db/pool.ts'
import * as jobs from '../jobs/queue.ts'
import { FileMissing, type StagedFile } from '../ports/file-store.ts'

/** What needs the file at an address: a document, a row of stored files without a document, a removal that was requested; or nothing. */
export type FileUse = 'document' | 'row' | 'removal' | 'none'

/** The one answer to "is this file used?". A running backup is no row: see removeFiles(). */
export async function usesOf(db: Db, addresses: readonly string[]): Promise<Map<string, FileUse>> {
  const { rows } = await sql<{ address: string; use: FileUse }>`
    select given.address, case
        when exists (select from documents where documents.sha256 = file.sha256) then 'document'
        when file.sha256 is not null then 'row'
        when removal.address is not null then 'removal'
        else 'none' end as use
    from unnest(${addresses}::text[]) as given (address)
    left join stored_files file on file.address = given.address
    left join file_removals removal on removal.address = given.address`.execute(db)
  return new Map(rows.map(({ address, use }) => [address, use]))
}

/** Rows that are read at once. */
const batchSize = 500

/** Yields every stored file in the order of SHA-256, in batches: the connection is free while the caller works. */
export async function* storedFiles(db: Db): AsyncGenerator<{ sha256: string; address: string; size: number }> {
  for (let last = ''; ; ) {
    const rows = await db
      .selectFrom('stored_files')
      .select(['sha256', 'address', 'size'])
      .where('sha256', '>', last)
      .orderBy('sha256')
      .limit(batchSize)
      .execute()
    yield* rows
    if (rows.length < batchSize) return
    last = rows.at(-1)?.sha256 ?? ''
  }
}

/** The address of the bytes with this SHA-256. Throws FileMissing where no row has them. */
export async function addressOf(db: Db, sha256: string): Promise<string> {
  const row = await db.selectFrom('stored_files').select('address').where('sha256', '=', sha256).executeTakeFirst()
  if (!row) throw new FileMissing(sha256)
  return row.address
}

/**
 * Calls `use` with the address of these bytes, and again where it throws FileMissing and they have another address by now. Returns its answer;
 * throws FileMissing.
 */
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

/**
 * Makes the row of these bytes where there is none, and locks it: until the transaction ends, a removal of the same bytes and another upload of them
 * wait. Returns the address that the row has: `address` where it was just made.
 */
export async function lockStored(trx: Trx, file: { sha256: string; size: number; address: string }): Promise<string> {
  const [[, address] = ['', '']] = await lockAllStored(trx, [file])
  return address
}

/** Locks the rows of many bytes, no two of which have the same SHA-256; the address of each SHA-256. */
export async function lockAllStored(
  trx: Trx,
  files: readonly { sha256: string; size: number; address: string }[],
): Promise<Map<string, string>> {
  const rows = await trx
    .insertInto('stored_files')
    // In one order, so that two who have bytes in common wait for each other instead of both for ever.
    .values([...files].sort((a, b) => (a.sha256 < b.sha256 ? -1 : 1)).map(({ sha256, size, address }) => ({ sha256, size, address })))
    .onConflict((conflict) => conflict.column('sha256').doUpdateSet((eb) => ({ size: eb.ref('stored_files.size') })))
    .returning(['sha256', 'address'])
    .execute()
  return new Map(rows.map(({ sha256, address }) => [sha256, address]))
}

/**
 * Sees to it that the locked row names a file with exactly these bytes. `address` is what the row has. Bytes that are there already stay only where
 * they were compared, byte by byte; else the staged ones take their place and the old file is removed after the commit. `canCompare` is for bytes
 * that the same owner has: the time of a comparison would tell everybody else that somebody has them.
 */
export async function ensureBytes(app: App, trx: Trx, staged: StagedFile, address: string, canCompare: boolean): Promise<void> {
  if (address === staged.address) return staged.commit()
  if (canCompare) {
    if (await staged.equals(address)) return
    app.log.error({ sha256: staged.sha256, address }, 'a stored file is damaged or missing; the bytes of a new upload take its place')
  }
  await staged.commit()
  await trx.updateTable('stored_files').set({ address: staged.address, size: staged.size }).where('sha256', '=', staged.sha256).execute()
  await writeRemoval(trx, address)
  await jobs.enqueue(trx, 'purge', { sha256: staged.sha256 }, { dedupeKey: `purge:${staged.sha256}` })
}

/** Files of at least so many bytes are compared before the transaction begins, so that no lock waits for it. */
const largeBytes = 1 << 20

/** Compares large staged files with what their owner has stored of them already; ensureBytes() then finds the answer. */
export async function compareLarge(app: App, ownerId: string, staged: readonly StagedFile[]): Promise<void> {
  const large = new Map(staged.filter(({ size }) => size >= largeBytes).map((file) => [file.sha256, file]))
  if (large.size === 0) return
  const rows = await app.db
    .selectFrom('stored_files')
    .select(['sha256', 'address'])
    .where('sha256', 'in', [...large.keys()])
    .where(({ exists, selectFrom }) =>
      exists(selectFrom('documents').select('id').whereRef('documents.sha256', '=', 'stored_files.sha256').where('owner_id', '=', ownerId)),
    )
    .execute()
  for (const { sha256, address } of rows) await large.get(sha256)?.equals(address)
}

/** Replaces stored bytes that are damaged, where an intact upload of them was refused as a duplicate. The row is locked meanwhile. */
export async function repairStored(app: App, staged: StagedFile): Promise<void> {
  await app.db.transaction().execute(async (trx) => {
    const address = await lockExisting(trx, staged.sha256)
    if (address !== undefined) await ensureBytes(app, trx, staged, address, true)
  })
  await staged.confirm()
}

/** Locks the row of these bytes where there is one: its address. */
export async function lockExisting(trx: Trx, sha256: string): Promise<string | undefined> {
  const row = await trx.selectFrom('stored_files').select('address').where('sha256', '=', sha256).forUpdate().executeTakeFirst()
  return row?.address
}

/** Writes down that a file is to be removed once the transaction is committed. */
export async function writeRemoval(trx: Trx, address: string): Promise<void> {
  await trx
    .insertInto('file_removals')
    .values({ address })
    .onConflict((conflict) => conflict.doNothing())
    .execute()
}

/** An address that no file has: it holds the place of a row while uploads of the same bytes are kept out. */
export const placeholderAddress = (sha256: string): string => `${sha256}.${randomBytes(16).toString('hex')}`
