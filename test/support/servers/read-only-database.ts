/** A database that becomes read-only while servers use it. */
import pg from 'pg'

/** Makes a database read-only for new connections, and cuts the others. */
export async function makeReadOnly(connectionString: string): Promise<void> {
  const client = new pg.Client({ connectionString })
  await client.connect()
  await client.query(`alter database ${client.escapeIdentifier(client.database ?? '')} set default_transaction_read_only = on`)
  await client.query(
    'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
  )
  await client.end()
}
