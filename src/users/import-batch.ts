/** Rows of an import, and their creation by one statement per batch. See row F27 in docs/reliability.md for the measurement. */
import { availableParallelism } from 'node:os'
import { sql } from 'kysely'
import { z } from 'zod'
import type { App } from '../app.ts'
import type { Db, Trx } from '../db/pool.ts'
import { booleanText } from '../http/input.ts'
import { emailKey, usernameKey } from '../http/user-identifier.ts'
import { slicesOf } from '../slices.ts'
import { confusableKeys } from './confusables.ts'
import { DisplayName, Email, Role, Username } from './fields.ts'
import { newPassword, PasswordHash } from './passwords.ts'
import { columnsOf, type NewUser } from './users.ts'

export const OnConflict = z.enum(['skip', 'update', 'fail'])
export type OnConflict = z.infer<typeof OnConflict>

export const importRow = ({ config }: App) =>
  z
    .object({
      username: Username,
      email: Email,
      password: newPassword(config).regex(/[^*]/, 'a mask of asterisks, not a password').optional(),
      password_hash: PasswordHash.optional(),
      role: Role.optional(),
      display_name: DisplayName.optional(),
      disabled: z.union([z.boolean(), booleanText], 'true or false').optional(),
    })
    .refine((row) => row.password === undefined || row.password_hash === undefined, {
      path: ['password_hash'],
      error: 'cannot be combined with password',
    })

export type ImportRow = z.infer<ReturnType<typeof importRow>>

/** Outcome of a row. */
export interface Outcome {
  action: 'created' | 'updated' | 'skipped'
  id?: string
}

/** Mode of an import. */
export interface ImportMode {
  onConflict: OnConflict
  /** run everything and roll it back */
  isDryRun: boolean
  /** the shared transaction; null: each row commits on its own */
  trx: Trx | null
}

/** Runs `work` in the shared transaction, else in its own, which a dry run rolls back. A dry run therefore finds the same conflicts. */
export async function inTransaction<T>({ db }: App, { trx: outer, isDryRun }: ImportMode, work: (trx: Trx) => Promise<T>): Promise<T> {
  if (outer) return work(outer)
  const trx = await db.startTransaction().execute()
  try {
    const result = await work(trx)
    await (isDryRun ? trx.rollback() : trx.commit()).execute()
    return result
  } catch (error) {
    if (!trx.isCommitted && !trx.isRolledBack) await trx.rollback().execute()
    throw error
  }
}

/** Concurrent hashes. Each occupies a core; more would delay sign-ins. */
export const maxHashes = Math.min(4, availableParallelism())

/**
 * Creates the users whose name and address are free, and skips existing users with `on_conflict = skip`. Returns outcomes by index. The
 * caller handles rows without an outcome: updates, disabled users, confusable names, and names that were taken meanwhile.
 */
export async function importBatch(app: App, rows: ReadonlyMap<number, ImportRow>, mode: ImportMode): Promise<Map<number, Outcome>> {
  const outcomes = new Map<number, Outcome>()
  const idByKey = await existingIds(mode.trx ?? app.db, [...rows.values()])
  const fresh: IndexedRow[] = []
  for (const [index, row] of rows) {
    const id = idByKey.get(usernameKey(row.username)) ?? idByKey.get(emailKey(row.email))
    if (id !== undefined && mode.onConflict === 'skip') outcomes.set(index, { action: 'skipped', id })
    if (id === undefined && !row.disabled && confusableKeys(usernameKey(row.username)).length === 0) fresh.push({ index, row })
  }
  if (fresh.length === 0) return outcomes
  const hashes = await hashesOf(app, fresh, mode.isDryRun)
  const users = fresh.map(({ index, row: { username, email, role = 'user', display_name } }): NewUser => {
    return { username, email, role, display_name, password_hash: hashes.get(index) ?? null, email_verified: true }
  })
  const created = await inTransaction(app, mode, (trx) => createAbsent(app, trx, users))
  for (const { index, row } of fresh) {
    const id = created.get(usernameKey(row.username))
    if (id !== undefined) outcomes.set(index, mode.isDryRun ? { action: 'created' } : { action: 'created', id })
  }
  return outcomes
}

interface IndexedRow {
  index: number
  row: ImportRow
}

/** Returns ids by user name key and by e-mail key. A name contains no @, so the keys cannot collide. */
async function existingIds(db: Db, rows: readonly ImportRow[]): Promise<Map<string, string>> {
  const usernames = rows.map(({ username }) => usernameKey(username))
  const emails = rows.map(({ email }) => emailKey(email))
  const existing = await db
    .selectFrom('users')
    .select(['id', 'username_key', 'email_key'])
    .where((eb) => eb.or([eb('username_key', '=', sql<string>`any(${usernames})`), eb('email_key', '=', sql<string>`any(${emails})`)]))
    .execute()
  return new Map(existing.flatMap(({ id, username_key, email_key }) => [[username_key, id] as const, [email_key, id] as const]))
}

/** Creates users and returns their ids by user name key. Leaves out rows whose name or address was taken meanwhile. */
async function createAbsent(app: App, db: Db, rows: readonly NewUser[]): Promise<Map<string, string>> {
  const at = app.now()
  // Every import inserts in this order: two imports of the same users cannot deadlock.
  const sorted = rows.map((row) => columnsOf(row, at)).sort((a, b) => (a.username_key < b.username_key ? -1 : 1))
  const created = await db
    .insertInto('users')
    .values(sorted)
    .onConflict((conflict) => conflict.doNothing())
    .returning(['id', 'username_key'])
    .execute()
  return new Map(created.map(({ id, username_key }) => [username_key, id]))
}

async function hashesOf(app: App, fresh: readonly IndexedRow[], isDryRun: boolean): Promise<ReadonlyMap<number, string>> {
  const hashes = new Map<number, string>()
  const hashOne = async ({ index, row: { password, password_hash } }: IndexedRow) => {
    const hash = password === undefined || isDryRun ? password_hash : await app.passwords.hash(password)
    if (hash !== undefined) hashes.set(index, hash)
  }
  for (const rows of slicesOf(fresh, maxHashes)) await Promise.all(rows.map(hashOne))
  return hashes
}
