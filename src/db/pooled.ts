/** The connection pool that kysely uses. Its connections prepare frequent statements. */
import { type PostgresPool, type PostgresPoolClient, type RawBuilder, sql } from 'kysely'
import type pg from 'pg'
import type { Hosts } from './hosts.ts'
import { renewPlans } from './plans.ts'

/** Statements that begin with this comment are prepared. */
export const preparedMark = '/* prepared */'

/**
 * Marks a frequent statement: sql`${prepared} insert …`. Each connection parses and plans it once. For a few rows, that takes longer than to run it. Use it
 * only if the text of the statement is always the same, and one plan is good for all values.
 */
export const prepared: RawBuilder<unknown> = sql.raw(preparedMark)

/** Returns the pool with retries. */
export function pooled(pool: pg.Pool, { retry }: Hosts): PostgresPool {
  const names = new Map<string, string>()
  const nameOf = (text: string): string => {
    const name = names.get(text) ?? `prepared${names.size}`
    names.set(text, name)
    return name
  }
  return {
    options: pool.options,
    async connect() {
      const client = await retry(() => pool.connect())
      await renewPlans(client)
      const query = (text: string, values: unknown[]) =>
        text.startsWith(preparedMark) ? client.query({ name: nameOf(text), text, values }) : client.query(text, values)
      return { query, release: (isLost: boolean) => client.release(isLost) } as unknown as PostgresPoolClient
    },
    end: () => pool.end(),
  }
}
