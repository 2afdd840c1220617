/** What somebody who helps needs to see, in one archive, without secrets and without users' texts. */
import { createWriteStream } from 'node:fs'
import { release } from 'node:os'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { sql } from 'kysely'
import { tarEnd, tarHeader, tarPadding } from '../backup/tar.ts'
import { readVersion } from '../version.ts'
import type { Diagnosis } from './doctor.ts'
import type { Patient } from './installation.ts'

/** Writes it (.tar.gz, 0600). `settings` are those in force, secrets left out. Throws where the file exists. */
export async function writeBundle(
  path: string,
  patient: Patient,
  diagnoses: readonly Diagnosis[],
  settings: readonly object[],
): Promise<void> {
  const now = Date.now() / 1000
  const files = {
    'doctor.json': diagnoses,
    'settings.json': settings,
    'versions.json': { dms: readVersion(), node: process.versions, platform: process.platform, arch: process.arch, system: release() },
    'database.json': await fromDatabase(patient).catch((error: Error) => ({ error: error.message })),
  }
  const blocks = Object.entries(files).flatMap(([name, value]) => {
    const text = Buffer.from(`${JSON.stringify(value, null, 1)}\n`)
    return [tarHeader(`dms-doctor/${name}`, text.length, now), text, tarPadding(text.length)]
  })
  await pipeline([...blocks, tarEnd], createGzip(), createWriteStream(path, { flags: 'wx', mode: 0o600 }))
}

/** Names of migrations, sizes of tables, and reasons of failures; no row of a user's. */
async function fromDatabase(patient: Patient): Promise<object> {
  const { db } = await patient.database()
  const rows = async (query: ReturnType<typeof sql>) => (await query.execute(db)).rows
  return {
    migrations: await rows(sql`select name, applied_at from migrations order by name`),
    tables: await rows(
      sql`select relname as name, n_live_tup as rows, pg_total_relation_size(relid) as bytes from pg_stat_user_tables order by 1`,
    ),
    settings: await rows(
      sql`select name, setting from pg_settings where source not in ('default', 'override') and name !~ 'ssl|password|conninfo' order by 1`,
    ),
    jobs: await rows(
      sql`select kind, status, error_code, count(*) as jobs, max(finished_at) as last from jobs group by 1, 2, 3 order by 1, 2, 3`,
    ),
  }
}
