/** Archives whose embedded PostgreSQL is of an older major version. */
import { createHash } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { loadPackage, packageName } from '../../../src/db/embedded/binaries.ts'
import { type EmbeddedAddress, type EmbeddedPostgres, joinEmbedded } from '../../../src/db/embedded/embedded.ts'
import { openLog } from '../../../src/log/log.ts'
import { run } from '../processes/run.ts'

export const oldMajor = 17
/** what `--old-binaries` takes */
export const oldBinaries = fileURLToPath(new URL('../../../node_modules/postgres-17', import.meta.url))

/** Returns why the old PostgreSQL cannot run on this machine; null if it can. */
export const missingOldPostgres = (): string | null =>
  existsSync(join(oldBinaries, 'node_modules', packageName)) ? null : ' (skipped: there is no PostgreSQL 17 for this platform)'

/** Starts or joins the old PostgreSQL of a data folder; creates the database if there is none. */
export async function joinOld(dataDir: string): Promise<EmbeddedPostgres> {
  const postgres = await loadPackage(join(oldBinaries, 'node_modules', packageName))
  return joinEmbedded({ dataDir, log: openLog({ level: 'silent', format: 'json' }), postgres })
}

/** Returns variables that make `dms` use a PostgreSQL that it would not start by itself. */
export const databaseEnvironment = ({ connection, ownerConnection }: EmbeddedPostgres): Record<string, string> => ({
  DATABASE_URL: urlOf(connection),
  DATABASE_MIGRATION_URL: urlOf(ownerConnection),
})

const urlOf = ({ host, port, user, database }: EmbeddedAddress): string =>
  `postgresql://${user}@/${database}?host=${encodeURIComponent(host)}&port=${port}`

/** Creates an archive with an admin and texts that were read and indexed. Returns the list of the documents as JSON. */
export async function createOldArchive(dataDir: string, options: { documents: number }): Promise<{ documents: string }> {
  mkdirSync(dataDir)
  chmodSync(dataDir, 0o711)
  const old = await joinOld(dataDir)
  try {
    const dms = async (...args: readonly string[]): Promise<string> => {
      const env = { ...databaseEnvironment(old), DMS_DATA_DIR: dataDir, DMS_LOG_LEVEL: 'error' }
      const { code, stdout, stderr } = await run(args, { env, input: 'a password for the admin', timeout: 3_600_000 })
      if (code !== 0) throw new Error(`dms ${args.join(' ')} ended with ${code}: ${stderr}`)
      return stdout
    }
    const scans = join(dataDir, 'scans')
    mkdirSync(scans)
    for (let made = 0; made < options.documents; made++) writeFileSync(join(scans, `${made}.txt`), `harbour number ${made}\n`)
    await dms('migrate', '-q')
    await dms('users', 'add', '--username', 'admin', '--email', 'admin@example.org', '--role', 'admin', '--password-stdin')
    await dms('labels', 'create', 'invoices')
    await dms('documents', 'upload', '-r', scans, '-q')
    await dms('worker', '--once', '-q')
    const documents = await dms('documents', 'list', '--all', '-o', 'json')
    // By its URL, dms took the database for an external one.
    const marker = join(dataDir, 'files/.dms-database')
    await writeFile(marker, (await readFile(marker, 'utf8')).replace(' ', ' embedded:'))
    return { documents }
  } finally {
    await old.release()
  }
}

/** Returns a checksum of names, modes and bytes of all files below a folder. */
export async function checksumOf(folder: string): Promise<string> {
  const hash = createHash('sha256')
  for (const name of (await readdir(folder, { recursive: true })).sort()) {
    const path = join(folder, name)
    const stats = await stat(path)
    hash.update(`${name}\0${stats.mode}\0`)
    if (stats.isFile()) hash.update(await readFile(path))
  }
  return hash.digest('hex')
}
