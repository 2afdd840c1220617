/** Writes an archive for a bug report, without secrets and without texts of users. */
import { createWriteStream } from 'node:fs'
import { release } from 'node:os'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { sql } from 'kysely'
import { tarEnd, tarHeader, tarPadding } from '../http/tar-writer.ts'
import { readVersion } from '../version.ts'
import type { Diagnosis } from './doctor.ts'
import type { LazyInstallation } from './installation.ts'

/** Writes a .tar.gz with mode 0600. `settings`: effective settings without secrets. Throws if the file exists. */
export async function writeBundle(
  path: string,
  installation: LazyInstallation,
  diagnoses: readonly Diagnosis[],
  settings: readonly object[],
): Promise<void> {
  const now = Date.now() / 1000
  const files = {
    'doctor.json': diagnoses,
    'settings.json': settings,
    'versions.json': { dms: readVersion(), node: process.versions, platform: process.platform, arch: process.arch, system: release() },
    'database.json': await describeDatabase(installation).catch((error: Error) => ({ error: error.message })),
  }
  const blocks = Object.entries(files).flatMap(([name, value]) => {
    const text = Buffer.from(`${JSON.stringify(value, null, 1)}\n`)
    return [tarHeader(`dms-doctor/${name}`, text.length, now), text, tarPadding(text.length)]
  })
  await pipeline([...blocks, tarEnd], createGzip(), createWriteStream(path, { flags: 'wx', mode: 0o600 }))
}

/** Returns migrations, table sizes, settings and causes of failures. Reads no rows of users. */
async function describeDatabase(installation: LazyInstallation): Promise<object> {
  const { db } = await installation.database()
  const query = async (text: string) => (await sql.raw(text).execute(db)).rows
  return {
    migrations: await query('select name, applied_at from migrations order by name'),
    tables: await query(
      'select relname as name, n_live_tup as rows, pg_total_relation_size(relid) as bytes from pg_stat_user_tables order by 1',
    ),
    settings: await query(
      `select name, setting from pg_settings where source not in ('default', 'override') and name !~ 'ssl|password|conninfo' order by 1`,
    ),
    jobs: await query(
      'select kind, status, error_code, count(*) as jobs, max(finished_at) as last from jobs group by 1, 2, 3 order by 1, 2, 3',
    ),
  }
}
