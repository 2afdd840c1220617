/** Finds the PostgreSQL programs of an older major version. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { ConfigError } from '../../../errors.ts'
import type { Account } from '../account.ts'
import { loadPackage, type PostgresPackage, packageName, prepareBinaries, readProgramVersion } from '../binaries.ts'

/** The newest package of each older major version that dms can upgrade from. Add the current one when the package changes to a new major version. */
const packageVersions: Readonly<Record<number, string>> = { 17: '17.10.0-beta.17' }

/** Returns the default folder of the programs of a major version, in the data folder. */
export const programsFolder = (dataDir: string, major: number): string => join(dataDir, `postgres-${major}-programs`)

/**
 * Returns the programs of `major` in `given`, else in programsFolder(). Each may hold bin/postgres, an npm package, or node_modules. Throws
 * ConfigError with the command that installs them.
 */
export async function findOldPrograms(
  dataDir: string,
  major: number,
  account: Account | undefined,
  given: string | undefined,
): Promise<PostgresPackage> {
  const folder = given ?? programsFolder(dataDir, major)
  const found = await openPrograms(folder, major)
  if (!found) throw new ConfigError([describeMissing(dataDir, folder, major, { isGiven: given !== undefined })])
  const version = await readProgramVersion(await prepareBinaries(dataDir, found, account), account)
  if (version === null || Number.parseInt(version, 10) !== major)
    throw new ConfigError([`the PostgreSQL in ${folder} is ${version ?? 'of another system'}, and the database needs PostgreSQL ${major}`])
  return { ...found, major }
}

async function openPrograms(folder: string, major: number): Promise<PostgresPackage | null> {
  for (const installed of [join(folder, 'node_modules', packageName), folder])
    if (existsSync(join(installed, 'native/bin/postgres'))) return loadPackage(installed)
  return existsSync(join(folder, 'bin/postgres')) ? { folder, version: `${major}.programs`, major } : null
}

function describeMissing(dataDir: string, folder: string, major: number, { isGiven }: { isGiven: boolean }): string {
  const missing = `${folder} has no programs of PostgreSQL ${major}, which read the old database`
  const version = packageVersions[major]
  const debian = `--old-binaries /usr/lib/postgresql/${major} uses those of the Debian package postgresql-${major}`
  if (version === undefined) return `${missing}; fix: ${debian}`
  const target = isGiven ? folder : programsFolder(dataDir, major)
  return `${missing}; fix: npm install --prefix '${target}' ${packageName}@${version}   (or ${debian})`
}
