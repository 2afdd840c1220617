/** Identity of a database, independent of its name and network address. A physical copy has the same identity, a logical copy another one. */
import { sql } from 'kysely'
import type { Db } from './pool.ts'

/** Expression of the identity: the system identifier of the cluster, and the oid of the database. */
export const databaseIdSql = `(select system_identifier from pg_control_system()) || '/' || (select oid from pg_database where datname = current_database())`

/** SQLSTATEs: right revoked, no such function, function not supported by the service. */
const refusedCodes = ['42501', '42883', '0A000']

/** Returns the identity. */
export async function readDatabaseId(db: Db): Promise<string> {
  const { rows } = await sql<{ id: string }>`select ${sql.raw(databaseIdSql)} as id`.execute(db)
  return rows[0]?.id ?? ''
}

/** Returns the identity; null if this role may not read it. */
export const findDatabaseId = (db: Db): Promise<string | null> =>
  readDatabaseId(db).catch((error: { code?: string }) => {
    if (!refusedCodes.includes(error.code ?? '')) throw error
    return null
  })
