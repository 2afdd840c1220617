/** Import of many users. Each row has its own result. */
import { z } from 'zod'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { parseInput } from '../http/input.ts'
import { openYielder } from '../http/time-slices.ts'
import { emailKey, usernameKey } from '../http/user-identifier.ts'
import {
  type ImportMode,
  type ImportRow,
  importBatch,
  importRow,
  inTransaction,
  maxHashes,
  OnConflict,
  type Outcome,
} from './import-batch.ts'
import { removeInitialPassword } from './passwords.ts'
import * as users from './users.ts'

const maxRows = 10_000
/** Rows looked up and created by one statement. */
const batchSize = 100
const RowList = z.array(z.unknown()).max(maxRows)

/** Rows are validated one by one: an invalid row is a result and not the end of the import. */
export const ImportBody = z
  .union([RowList, z.object({ users: RowList, on_conflict: OnConflict.default('skip') })], {
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

export interface ImportOptions {
  /** run everything and roll it back */
  dry_run?: boolean
  /** write nothing if one row is invalid */
  atomic?: boolean
}

/**
 * Creates new users. Existing ones, found by user name or else by e-mail address, are skipped, updated or failed by `on_conflict`. Throws
 * CONFLICT if an atomic import meets a concurrent change.
 */
export async function importUsers(
  app: App,
  body: z.infer<typeof ImportBody>,
  { dry_run = false, atomic = false }: ImportOptions = {},
): Promise<ImportReport> {
  const { users: rows, on_conflict } = Array.isArray(body) ? { users: body, on_conflict: 'skip' as const } : body
  const results: Result[] = []
  const mode = { onConflict: on_conflict, isDryRun: dry_run, trx: null }
  if (!atomic || dry_run) await importEach(app, rows, mode, results)
  else await importTogether(app, rows, mode, results)
  const countOf = (action: Result['action']) => results.filter((result) => result.action === action).length
  return { created: countOf('created'), updated: countOf('updated'), skipped: countOf('skipped'), failed: countOf('failed'), results }
}

/** Imports rows in batches. The failure of a row becomes its result; in a shared transaction it throws. */
async function importEach(app: App, rows: readonly unknown[], mode: ImportMode, results: Result[]): Promise<void> {
  const groupSize = mode.trx ? 1 : maxHashes
  for await (const batch of validBatches(app, rows, results)) {
    const outcomes = await importBatch(app, batch, mode)
    const rest: [number, ImportRow][] = []
    for (const [index, row] of batch) {
      const outcome = outcomes.get(index)
      if (outcome) results[index] = { index, username: row.username, ...outcome }
      else rest.push([index, row])
    }
    while (rest.length > 0) {
      const done = rest.splice(0, groupSize).map(async ([index, row]): Promise<Result> => {
        const work = importOne(app, row, mode).then((outcome) => ({ index, username: row.username, ...outcome }))
        return mode.trx ? work : work.catch((error) => failed(index, row.username, error))
      })
      for (const result of await Promise.all(done)) results[result.index] = result
    }
  }
}

/** Imports all rows in one transaction after a dry run of each. If a row fails in the dry run, reports the valid rows as skipped. */
async function importTogether(app: App, rows: readonly unknown[], mode: ImportMode, results: Result[]): Promise<void> {
  await importEach(app, rows, { ...mode, isDryRun: true }, results)
  if (results.some(({ action }) => action === 'failed')) {
    for (const result of results) if (result.action !== 'failed') result.action = 'skipped'
    return
  }
  try {
    await app.db.transaction().execute((trx) => importEach(app, rows, { ...mode, trx }, results))
  } catch (error) {
    throw error instanceof AppError
      ? new AppError('CONFLICT', error.details, `No user was written: ${error.message} Fix: repeat the import.`)
      : error
  }
}

/** Yields the valid rows by index, in batches. Adds a result for each invalid row and for each repeated name or address. */
async function* validBatches(app: App, rows: readonly unknown[], results: Result[]): AsyncIterable<Map<number, ImportRow>> {
  const schema = importRow(app)
  const pause = openYielder()
  const firstIndex = { username: new Map<string, number>(), email: new Map<string, number>() }
  let batch = new Map<number, ImportRow>()
  for (const [index, value] of rows.entries()) {
    try {
      const row = parseInput(schema, value)
      const keys = { username: usernameKey(row.username), email: emailKey(row.email) }
      for (const field of ['username', 'email'] as const) {
        const first = firstIndex[field].get(keys[field])
        if (first !== undefined)
          throw new AppError('DUPLICATE_RESOURCE', { field, first_index: first }, `Row ${first} has the same ${field}.`)
      }
      for (const field of ['username', 'email'] as const) firstIndex[field].set(keys[field], index)
      batch.set(index, row)
    } catch (error) {
      results[index] = failed(index, nameIn(value), error)
    }
    await pause()
    if (batch.size < batchSize) continue
    yield batch
    batch = new Map()
  }
  if (batch.size > 0) yield batch
}

/** Returns the result of an invalid row. Rethrows errors that are not the row's fault. */
function failed(index: number, username: string | null, error: unknown): Result {
  if (!(error instanceof AppError)) throw error
  const { code, message, details } = error
  return { index, username, action: 'failed', error: { code, message, details } }
}

async function importOne(app: App, row: ImportRow, mode: ImportMode): Promise<Outcome> {
  const db = mode.trx ?? app.db
  const existing = (await users.findByIdentifier(db, row.username)) ?? (await users.findByIdentifier(db, row.email))
  if (!existing) return createOne(app, row, mode)
  if (mode.onConflict === 'skip') return { action: 'skipped', id: existing.id }
  if (mode.onConflict === 'update') return updateOne(app, existing, row, mode)
  const field = existing.username_key === usernameKey(row.username) ? 'username' : 'email'
  throw new AppError('DUPLICATE_RESOURCE', { field, id: existing.id }, 'A user with this name or address exists already.')
}

async function createOne(app: App, row: ImportRow, mode: ImportMode): Promise<Outcome> {
  const { password, password_hash, role = 'user', disabled, ...fields } = row
  const hash = password === undefined || mode.isDryRun ? (password_hash ?? null) : await app.passwords.hash(password)
  const { id } = await inTransaction(app, mode, async (trx) => {
    const user = await users.create(app, trx, { ...fields, role, password_hash: hash, email_verified: true })
    return disabled ? users.applyChanges(app, trx, user.id, { disabled }) : user
  })
  return mode.isDryRun ? { action: 'created' } : { action: 'created', id }
}

async function updateOne(app: App, existing: users.User, row: ImportRow, mode: ImportMode): Promise<Outcome> {
  const changes = await changesOf(app, existing, row)
  if (Object.keys(changes).length === 0) return { action: 'skipped', id: existing.id }
  await inTransaction(app, mode, (trx) => users.applyChanges(app, trx, existing.id, changes))
  if (changes.password_hash !== undefined && !mode.isDryRun) await removeInitialPassword(app, existing.password_hash)
  return { action: 'updated', id: existing.id }
}

/** Returns the fields that differ. An unchanged row must not end the user's sessions. */
async function changesOf(app: App, existing: users.User, row: ImportRow): Promise<users.Changes> {
  const { email, role, display_name, disabled, password, password_hash } = row
  const changes: users.Changes = {}
  if (email !== existing.email) Object.assign(changes, { email, email_verified: true })
  if (role !== undefined && role !== existing.role) changes.role = role
  if (display_name !== undefined && display_name !== existing.display_name) changes.display_name = display_name
  if (disabled !== undefined && disabled !== existing.disabled) changes.disabled = disabled
  if (password_hash !== undefined && password_hash !== existing.password_hash) changes.password_hash = password_hash
  if (password !== undefined && !(await app.passwords.verify(existing.password_hash, password, { isTrusted: true })))
    changes.password_hash = await app.passwords.hash(password)
  return changes
}

const nameIn = (value: unknown): string | null => {
  const { username } = (value ?? {}) as { username?: unknown }
  return typeof username === 'string' ? username.slice(0, 64) : null
}
