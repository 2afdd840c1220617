/** Many users at once: each row stands alone, and has its own result. */
import { availableParallelism } from 'node:os'
import { z } from 'zod'
import type { App } from '../app.ts'
import type { Trx } from '../db/pool.ts'
import { AppError } from '../errors.ts'
import { check, flag } from '../http/input.ts'
import { openSlices } from '../http/time-slices.ts'
import { emailKey, usernameKey } from '../http/user-identifier.ts'
import { DisplayName, Email, Role, Username } from './fields.ts'
import { forgetInitialPassword } from './initial-password.ts'
import { newPassword, PasswordHash } from './passwords.ts'
import * as users from './users.ts'

const maxRows = 10_000
const rows = z.array(z.unknown()).max(maxRows)
const OnConflict = z.enum(['skip', 'update', 'fail'])

/** Rows are looked at one by one, so that a bad one is a result and not the end. */
export const ImportBody = z
  .union([rows, z.object({ users: rows, on_conflict: OnConflict.default('skip') })], {
    error: `an array of at most ${maxRows} users, or {"users": […], "on_conflict": "skip"|"update"|"fail"}`,
  })
  .describe('Users: {username, email, password?, password_hash?, role?, display_name?, disabled?}')

export const ImportAnswer = z.object({
  created: z.int(),
  updated: z.int(),
  skipped: z.int(),
  failed: z.int(),
  results: z.array(
    z.object({
      index: z.int(),
      username: z.string().nullable(),
      action: z.enum(['created', 'updated', 'skipped', 'failed']),
      id: z.uuid().optional(),
      error: z.object({ code: z.string(), message: z.string(), details: z.record(z.string(), z.unknown()) }).optional(),
    }),
  ),
})

export type ImportReport = z.infer<typeof ImportAnswer>
type Result = ImportReport['results'][number]
type Done = Pick<Result, 'action' | 'id'>

const importRow = ({ config }: App) =>
  z
    .object({
      username: Username,
      email: Email,
      password: newPassword(config).optional(),
      password_hash: PasswordHash.optional(),
      role: Role.optional(),
      display_name: DisplayName.optional(),
      disabled: z.union([z.boolean(), flag], 'true or false').optional(),
    })
    .refine((row) => row.password === undefined || row.password_hash === undefined, {
      path: ['password_hash'],
      error: 'not together with password',
    })

type ImportRow = z.infer<ReturnType<typeof importRow>>

/** A hash takes a core for a while: more rows at once would only keep people who sign in waiting. */
const atOnce = Math.min(4, availableParallelism())

export interface ImportOptions {
  /** do it all and keep nothing */
  dry_run?: boolean
  /** keep nothing where one row is bad */
  atomic?: boolean
}

/** Makes the users that are not there yet; those that are (by name, else by e-mail address) are skipped, updated or failed. Throws CONFLICT where an atomic one meets another change. */
export async function importUsers(
  app: App,
  body: z.infer<typeof ImportBody>,
  { dry_run = false, atomic = false }: ImportOptions = {},
): Promise<ImportReport> {
  const { users: given, on_conflict } = Array.isArray(body) ? { users: body, on_conflict: 'skip' as const } : body
  const results: Result[] = []
  const rows = await distinct(app, given, results)
  if (!atomic || dry_run) await importEach(app, rows, on_conflict, dry_run, results)
  else await importTogether(app, rows, on_conflict, results)
  return report(results)
}

type OnConflict = z.infer<typeof OnConflict>

async function importEach(app: App, rows: ReadonlyMap<number, ImportRow>, onConflict: OnConflict, isDry: boolean, results: Result[]) {
  const todo = [...rows]
  while (todo.length > 0) {
    const group = todo.splice(0, atOnce)
    const done = await Promise.all(group.map(([index, row]) => outcome(index, row.username, () => importOne(app, row, onConflict, isDry))))
    for (const result of done) results[result.index] = result
  }
}

/** All rows in one transaction, after a dry run has found each of them good; where it has not, the good ones are told of as skipped. */
async function importTogether(app: App, rows: ReadonlyMap<number, ImportRow>, onConflict: OnConflict, results: Result[]): Promise<void> {
  await importEach(app, rows, onConflict, true, results)
  if (results.some(({ action }) => action === 'failed')) {
    for (const result of results) if (result.action !== 'failed') result.action = 'skipped'
    return
  }
  try {
    await app.db.transaction().execute(async (trx) => {
      for (const [index, row] of rows)
        results[index] = { index, username: row.username, ...(await importOne(app, row, onConflict, false, trx)) }
    })
  } catch (error) {
    throw error instanceof AppError ? new AppError('CONFLICT', error.details, `Nothing was written: ${error.message}`) : error
  }
}

function report(results: Result[]): ImportReport {
  const counted = (action: Result['action']) => results.filter((result) => result.action === action).length
  return { created: counted('created'), updated: counted('updated'), skipped: counted('skipped'), failed: counted('failed'), results }
}

/** The good rows by their index; the others, and those that repeat a name or an address, go to the results at once. */
async function distinct(app: App, given: readonly unknown[], results: Result[]): Promise<Map<number, ImportRow>> {
  const schema = importRow(app)
  const pause = openSlices()
  const good = new Map<number, ImportRow>()
  const seen = new Map<string, number>()
  for (const [index, value] of given.entries()) {
    try {
      const row = check(schema, value)
      for (const [field, key] of [
        ['username', `n:${usernameKey(row.username)}`],
        ['email', `e:${emailKey(row.email)}`],
      ] as const) {
        const first = seen.get(key)
        if (first !== undefined)
          throw new AppError('DUPLICATE_RESOURCE', { field, first_index: first }, `Row ${first} has the same ${field}.`)
      }
      seen.set(`n:${usernameKey(row.username)}`, index).set(`e:${emailKey(row.email)}`, index)
      good.set(index, row)
    } catch (error) {
      results[index] = failed(index, nameIn(value), error)
    }
    await pause()
  }
  return good
}

async function outcome(index: number, username: string, work: () => Promise<Done>): Promise<Result> {
  try {
    return { index, username, ...(await work()) }
  } catch (error) {
    return failed(index, username, error)
  }
}

/** What is wrong with a row goes into its result; what is wrong with us goes up. */
function failed(index: number, username: string | null, error: unknown): Result {
  if (!(error instanceof AppError)) throw error
  const { code, message, details } = error
  return { index, username, action: 'failed', error: { code, message, details } }
}

/** `trx`: of the caller, who keeps it; without one the row has its own. */
async function importOne(app: App, row: ImportRow, onConflict: OnConflict, dryRun: boolean, trx: Trx | null = null): Promise<Done> {
  const db = trx ?? app.db
  const there = (await users.named(db, row.username)) ?? (await users.named(db, row.email))
  if (!there) return createOne(app, row, dryRun, trx)
  if (onConflict === 'skip') return { action: 'skipped', id: there.id }
  if (onConflict === 'update') return updateOne(app, there, row, dryRun, trx)
  const field = there.username_key === usernameKey(row.username) ? 'username' : 'email'
  throw new AppError('DUPLICATE_RESOURCE', { field, id: there.id }, 'That user exists already.')
}

async function createOne(
  app: App,
  { password, password_hash, role = 'user', disabled, ...fields }: ImportRow,
  dryRun: boolean,
  outer: Trx | null,
): Promise<Done> {
  const hash = password === undefined || dryRun ? (password_hash ?? null) : await app.passwords.hash(password)
  const { id } = await kept(app, outer, dryRun, async (trx) => {
    const user = await users.create(app, trx, { ...fields, role, password_hash: hash, email_verified: true })
    return disabled ? users.change(app, trx, user.id, { disabled }) : user
  })
  return dryRun ? { action: 'created' } : { action: 'created', id }
}

async function updateOne(app: App, there: users.User, row: ImportRow, dryRun: boolean, outer: Trx | null): Promise<Done> {
  const changes = await changed(app, there, row)
  if (Object.keys(changes).length === 0) return { action: 'skipped', id: there.id }
  await kept(app, outer, dryRun, (trx) => users.change(app, trx, there.id, changes))
  if (changes.password_hash !== undefined && !dryRun) await forgetInitialPassword(app, there.password_hash)
  return { action: 'updated', id: there.id }
}

/** Only what differs: a file that is imported every night must not end everybody's sessions every night. */
async function changed(
  app: App,
  there: users.User,
  { email, role, display_name, disabled, password, password_hash }: ImportRow,
): Promise<users.Changes> {
  const changes: users.Changes = {}
  if (email !== there.email) Object.assign(changes, { email, email_verified: true })
  if (role !== undefined && role !== there.role) changes.role = role
  if (display_name !== undefined && display_name !== there.display_name) changes.display_name = display_name
  if (disabled !== undefined && disabled !== there.disabled) changes.disabled = disabled
  if (password_hash !== undefined && password_hash !== there.password_hash) changes.password_hash = password_hash
  if (password !== undefined && !(await app.passwords.verify(there.password_hash, password)))
    changes.password_hash = await app.passwords.hash(password)
  return changes
}

/** Work in a transaction, undone at its end in a dry run: so that it finds every conflict that the real run would. */
async function kept<T>(app: App, outer: Trx | null, dryRun: boolean, work: (trx: Trx) => Promise<T>): Promise<T> {
  if (outer) return work(outer)
  const trx = await app.db.startTransaction().execute()
  try {
    const result = await work(trx)
    await (dryRun ? trx.rollback() : trx.commit()).execute()
    return result
  } catch (error) {
    if (!trx.isCommitted && !trx.isRolledBack) await trx.rollback().execute()
    throw error
  }
}

const nameIn = (value: unknown): string | null => {
  const { username } = (value ?? {}) as { username?: unknown }
  return typeof username === 'string' ? username.slice(0, 64) : null
}
