/** Checks that the settings fit the memory, and the buffers of the embedded PostgreSQL its data. */
import { sql } from 'kysely'
import { findMemoryShortage, loadMemorySize, maxSharedBuffers } from '../config/memory.ts'
import { formatSize } from '../config/values.ts'
import { type CheckResult, ok, warn } from './doctor.ts'
import { type LazyInstallation, reachDatabase } from './installation.ts'

/** Checks the memory against the configuration, and the buffers of the embedded PostgreSQL against the size of its database. */
export async function checkMemory(installation: LazyInstallation): Promise<CheckResult> {
  const { config } = installation.loaded
  const shortage = findMemoryShortage(config)
  if (shortage) return warn(shortage.message, shortage.fix)
  if (config.database.url !== '') return ok(formatGigabytes(loadMemorySize()))
  const { db } = await reachDatabase(installation)
  const { rows } = await sql<{ buffers: number; data: number }>`
    select pg_size_bytes(current_setting('shared_buffers'))::float8 as buffers, pg_database_size(current_database())::float8 as data`.execute(
    db,
  )
  const { buffers, data } = rows[0] ?? { buffers: 0, data: 0 }
  const sizes = `PostgreSQL has ${formatSize(buffers)} of buffers for ${formatGigabytes(data)} of data`
  return data > buffers && buffers < maxSharedBuffers(loadMemorySize()) ? warn(sizes, 'restart dms, which enlarges them') : ok(sizes)
}

const formatGigabytes = (bytes: number): string => `${(bytes / 1e9).toFixed(2)} GB`
