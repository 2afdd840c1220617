/** Statements of the superuser on the database server of the run. */
import pg from 'pg'
import { inject } from 'vitest'

let server: pg.Pool | undefined

/** Runs the statements in order. All tests of a process share one connection: most create and drop databases. */
export async function administer(...statements: string[]): Promise<void> {
  server ??= new pg.Pool({ connectionString: inject('databaseUrl').replace('NAME', 'postgres'), max: 1, allowExitOnIdle: true }).on(
    'error',
    () => {},
  )
  for (const statement of statements) await server.query(statement)
}
