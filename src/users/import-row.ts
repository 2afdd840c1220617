/** Import of one row, and its transaction. */
import { z } from 'zod'
import type { App } from '../app.ts'
import type { Trx } from '../db/pool.ts'
import { booleanText } from '../http/input.ts'
import { DisplayName, Email, Role, Username } from './fields.ts'
import { newPassword, PasswordHash } from './passwords.ts'

export const OnConflict = z.enum(['skip', 'update', 'fail'])
export type OnConflict = z.infer<typeof OnConflict>

export const importRow = ({ config }: App) =>
  z
    .object({
      username: Username,
      email: Email,
      password: newPassword(config).optional(),
      password_hash: PasswordHash.optional(),
      role: Role.optional(),
      display_name: DisplayName.optional(),
      disabled: z.union([z.boolean(), booleanText], 'true or false').optional(),
    })
    .refine((row) => row.password === undefined || row.password_hash === undefined, {
      path: ['password_hash'],
      error: 'not together with password',
    })

export type ImportRow = z.infer<ReturnType<typeof importRow>>

/** Outcome of a row. */
export interface Outcome {
  action: 'created' | 'updated' | 'skipped'
  id?: string
}

/** How an import writes its rows. */
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
