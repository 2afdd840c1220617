/** Checks that the server can read and write its files. Commands of other users may have created files that it cannot. */
import { access, constants, readdir, stat } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { mapConcurrently } from '../concurrency.ts'
import type { Config } from '../config/schema.ts'
import { findAccountName } from '../db/embedded/account.ts'
import { storeFolder } from '../files/store-marker.ts'
import { dms } from '../log/fix.ts'
import { type CheckResult, fail, ok, SkippedCheck, warn } from './doctor.ts'

const concurrency = 32
/** Time limit, shorter than that of a check: a large store is reported in part. */
const maxMs = 20_000

/** Tries to access each file of the data folder and of the document store as the user of this process. If root started it, this is the owner of the data folder (data-owner.ts). */
export async function checkAccess(config: Pick<Config, 'data_dir' | 'storage'>): Promise<CheckResult> {
  if (process.getuid?.() === 0) return ok('root can read and write every file')
  const folder = await stat(config.data_dir).catch(() => null)
  if (!folder) throw new SkippedCheck(`there is no ${config.data_dir}`)
  const owner = (await findAccountName(folder.uid)) ?? String(folder.uid)
  if (folder.uid !== process.getuid?.())
    return fail(`${config.data_dir} belongs to user "${owner}", this is "${userInfo().username}"`, [`sudo -u ${owner} `, dms`doctor`])
  const endMs = performance.now() + maxMs
  let count = 0
  for (const root of new Set([config.data_dir, storeFolder(config)])) {
    const denied: string[] = []
    await mapConcurrently(walk(root), concurrency, async ([path, mode]) => {
      count++
      await access(path, mode).catch((error: NodeJS.ErrnoException) => {
        // Another process may have removed the file meanwhile.
        if (error.code === 'EACCES') denied.push(path)
      })
    })
    if (denied.length > 0)
      return fail(`"${owner}" cannot read and write ${denied.length} files, such as ${denied[0]}`, `as root: chown -R ${owner}: '${root}'`)
    if (performance.now() > endMs) return warn(`${count} files are accessible; there are more`, dms`check --checks files`)
  }
  return ok(`"${owner}" can read and write all ${count} files`)

  /** Yields files and folders with the needed access. The server of the embedded PostgreSQL checks its own files. */
  async function* walk(path: string): AsyncGenerator<[path: string, mode: number]> {
    yield [path, constants.R_OK | constants.W_OK | constants.X_OK]
    for (const entry of await readdir(path, { withFileTypes: true }).catch(() => [])) {
      if (performance.now() > endMs) return
      if (path === config.data_dir && entry.name.startsWith('postgres')) continue
      const child = join(path, entry.name)
      if (entry.isDirectory()) yield* walk(child)
      else if (entry.isFile()) yield [child, constants.R_OK | constants.W_OK]
    }
  }
}
