/** Root acts as the owner of the data folder, so that the server can read and write every file in it. */
import { accessSync, constants, statSync } from 'node:fs'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { useHome } from '../../config/environment.ts'
import { findAccountName } from '../../db/embedded/account.ts'
import { ConfigError } from '../../errors.ts'

/**
 * Switches from root to the owner of the data folder for the rest of this process. Call it as root. Returns the name of the owner; null if the
 * process stays root. Throws ConfigError.
 */
export async function actAsOwner(dataDir: string): Promise<string | null> {
  const folder = statSync(dataDir, { throwIfNoEntry: false })
  if (!folder || folder.uid === 0) return null
  const { uid, gid } = folder
  const name = await findAccountName(uid)
  const filesUid = statSync(join(dataDir, 'files'), { throwIfNoEntry: false })?.uid
  if (name === undefined) {
    // A mount of a container, whose user is unknown to the host. PostgreSQL cannot create a database as a user without a name.
    if (filesUid !== uid) return null
    process.setgroups?.([gid])
  } else {
    if (filesUid !== undefined && filesUid !== uid)
      throw new ConfigError([
        `${dataDir} belongs to user "${name}", but ${join(dataDir, 'files')} to ${(await findAccountName(filesUid)) ?? filesUid}; ` +
          `fix: chown -R ${name}: ${dataDir}   (chown root: ${dataDir} where the server runs as root)`,
      ])
    // Missing in the types of Node.
    const { initgroups } = process as unknown as { initgroups(user: string, group: number): void }
    initgroups(name, gid)
  }
  process.setgid?.(gid)
  process.setuid?.(uid)
  useHome(name === undefined ? dataDir : userInfo().homedir)
  assertProgramAccess(dataDir, name ?? String(uid))
  return name ?? String(uid)
}

/** Throws ConfigError if the user cannot read dms or run Node: modules and workers are loaded later, as this user. */
function assertProgramAccess(dataDir: string, user: string): void {
  const module = fileURLToPath(import.meta.url)
  try {
    accessSync(process.execPath, constants.X_OK)
    accessSync(module, constants.R_OK)
  } catch (error) {
    const { path = module } = error as NodeJS.ErrnoException
    throw new ConfigError([
      `${dataDir} belongs to user "${user}", who cannot read ${path}: install dms and Node in folders that every user can read`,
    ])
  }
}
