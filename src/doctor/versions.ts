/** Checks how much of the document store old versions and the trash take. */
import type { Db } from '../db/pool.ts'
import { loadStoredBytes } from '../documents/versions/stored-bytes.ts'
import { formatBytes } from '../http/html.ts'
import { type CheckResult, ok, warn } from './doctor.ts'
import type { LazyInstallation } from './installation.ts'

/** Warns where old versions, which nothing limits, take more than half of the document store. */
export async function checkVersions({ loaded }: LazyInstallation, db: Db): Promise<CheckResult> {
  const { keep_versions, version_days } = loaded.config.documents
  const { total, oldVersions, oldVersionCount, trash, trashedCount } = await loadStoredBytes(db)
  const text = `${oldVersionCount} old versions take ${formatBytes(oldVersions)}, ${trashedCount} documents in the trash ${formatBytes(trash)}, of ${formatBytes(total)}`
  if (oldVersions > total / 2 && keep_versions === 0 && version_days === 0)
    return warn(`${text}; no old version is ever removed`, 'set documents.keep_versions or documents.version_days')
  return ok(text)
}
