/** The pool under kysely. Its connections prepare the statements that run often. */
import { type PostgresPool, type PostgresPoolClient, type RawBuilder, sql } from 'kysely'
import type pg from 'pg'
import type { Hosts } from './hosts.ts'

/** First characters of a statement that is prepared. */
export const preparedMark = '/* prepared */'

/**
 * Put first into a statement that runs often: sql`${prepared} insert …`. PostgreSQL parses and plans it once for each connection, which takes longer
 * than to run it with a few rows. Its text must not depend on the values, and one plan must suit any values.
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
      const query = (text: string, values: unknown[]) =>
        text.startsWith(preparedMark) ? client.query({ name: nameOf(text), text, values }) : client.query(text, values)
      return { query, release: (isLost: boolean) => client.release(isLost) } as unknown as PostgresPoolClient
    },
    end: () => pool.end(),
  }
}
