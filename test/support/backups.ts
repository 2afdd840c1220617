/** Installations to back up. */
import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { onTestFinished } from 'vitest'
import { startApp, upload } from './app.ts'
import { connection, type Place } from './places.ts'

/** Returns the rows of an installation as text, to compare two installations. */
export async function rowsOf(place: Place, table: string): Promise<string[]> {
  const client = await connection(place)
  const { rows } = await client.query<{ row: string }>(`select to_jsonb(t)::text as row from ${table} t order by 1`)
  return rows.map(({ row }) => row)
}

/** Locks a table until the returned function is called, which blocks COPY. */
export async function lockTable(place: Place, table: string): Promise<() => Promise<void>> {
  const client = new pg.Client({ connectionString: place.databaseUrl })
  client.on('error', () => {})
  await client.connect()
  await client.query(`begin; lock table ${table} in access exclusive mode`)
  const release = () => client.end()
  onTestFinished(release)
  return release
}

/** Creates an installation with three pending documents, two of them with equal bytes. */
export async function someDocuments() {
  const started = await startApp()
  const place: Place = { databaseUrl: started.databaseUrl, dataDir: started.dataDir }
  const first = await upload(started.asAda, 'harbour.txt', 'Harbour fees for 2026')
  await upload(started.asBob, 'harbour.txt', 'Harbour fees for 2026')
  await upload(started.asAda, 'noise.bin', randomBytes(300_000))
  // The maintenance job deletes the second copy of the equal bytes.
  await started.runJobs(['maintenance'])
  return { ...started, place, first }
}

export const summary = (stdout: string) => JSON.parse(stdout) as Record<string, unknown>
