/** F10: commands that build a new state beside the current one (index, restore, export) are killed. */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Ended, run as runDms } from '../../support/processes/run.ts'
import { commonWord, sha256Of } from '../caller.ts'
import { openSecondDatabase } from '../database/second-database.ts'
import { type Fault, type FaultContext, type FaultResult, type FaultRun, openFaultRun } from '../fault.ts'
import type { Installation } from '../installation.ts'

const timeoutMs = 120_000

export const killedCommands: Fault = { id: 'F10', name: 'kill -9 of search reindex, restore and documents export', run }

async function run({ isShort, openInstallation }: FaultContext): Promise<FaultResult> {
  // A separate installation, because the test compares all its data.
  const installation = await openInstallation()
  const server = await installation.start()
  const faultRun = await openFaultRun(installation)
  for (let at = 0; at < (isShort ? 40 : 400); at++)
    await (at % 4 === 0 ? faultRun.caller.uploadBytes(200_000) : faultRun.caller.uploadText())
  const rounds = isShort ? 1 : 12
  let kills = 0
  for (const attempt of [killReindex, killExport, killRestore]) kills += await attempt(installation, faultRun, rounds)
  const result = await faultRun.finish(`${kills} kills`)
  await server.kill()
  await installation.remove()
  return result
}

const dms = (dataDir: string, args: readonly string[], options: { env?: Record<string, string>; timeout?: number } = {}): Promise<Ended> =>
  runDms([...args, '--data-dir', dataDir], { timeout: timeoutMs, ...options, env: { DMS_STORAGE_MIN_FREE: '0', ...options.env } })

/** Runs a command once completely, then `rounds` times with a kill. Returns the number of kills that hit a running process. */
async function killSome(
  { expect }: FaultRun,
  rounds: number,
  command: (round: number, timeout?: number) => Promise<Ended>,
  look: (round: number) => Promise<void>,
): Promise<number> {
  const startedAt = performance.now()
  const whole = await command(-1)
  const wholeMs = performance.now() - startedAt
  expect(whole.code === 0, `not killed it ended with ${whole.code}: ${whole.stderr.slice(-300)}`)
  let kills = 0
  for (let round = 0; round < rounds; round++) {
    const { signal } = await command(round, Math.round(wholeMs * (0.4 + 0.55 * Math.random())))
    kills += Number(signal === 'SIGKILL')
    await look(round)
  }
  return kills
}

/** Kills rebuilds of the index. The current index must answer meanwhile, and the next rebuild must be complete. */
async function killReindex(installation: Installation, faultRun: FaultRun, rounds: number): Promise<number> {
  const reindex = (_: number, timeout = timeoutMs) => dms(installation.dataDir, ['search', 'reindex'], { timeout })
  const total = async () => (JSON.parse((await faultRun.caller.search()).body.toString()) as { total: number }).total
  const texts = [...faultRun.ledger.uploads.values()].filter(({ word }) => word !== null).length
  const look = async () => {
    const found = await total()
    faultRun.expect(found === texts, `reindex killed: ${commonWord} finds ${found} of ${texts} documents`)
  }
  // A document that has not been read yet has no text to be found by.
  for (const end = performance.now() + timeoutMs; (await total()) < texts; await sleep(100))
    if (performance.now() > end) throw new Error('the documents are not found before the first rebuild')
  const kills = await killSome(faultRun, rounds, reindex, look)
  const { code, stderr } = await dms(installation.dataDir, ['search', 'reindex'])
  faultRun.expect(code === 0, `reindex after a killed one ended with ${code}: ${stderr.slice(-300)}`)
  await look()
  return kills
}

/** Kills exports. A file under its final name must be complete, and a manifest must list complete files only. */
async function killExport(installation: Installation, faultRun: FaultRun, rounds: number): Promise<number> {
  const sums = new Set([...faultRun.ledger.uploads.values()].map(({ sha256 }) => sha256))
  const target = (round: number) => join(installation.folder, `export${round}`)
  const exportTo = (round: number, timeout = timeoutMs) =>
    dms(installation.dataDir, ['documents', 'export', '--to', target(round)], { timeout })
  const look = async (round: number) => {
    const names = await readdir(target(round)).catch(() => [])
    const isFinal = (name: string) => !name.startsWith('.') && name !== 'manifest.jsonl'
    for (const name of names.filter(isFinal)) {
      const bytes = await readFile(join(target(round), name))
      faultRun.expect(sums.has(sha256Of(bytes)), `export killed: ${name} is there with other bytes (${bytes.length})`)
    }
    const again = await exportTo(round)
    faultRun.expect(again.code === 0, `export into the folder of a killed one ended with ${again.code}: ${again.stderr.slice(-300)}`)
    const all = await readdir(target(round))
    faultRun.expect(
      all.filter(isFinal).length === sums.size,
      `export after a killed one: ${all.filter(isFinal).length} of ${sums.size} files`,
    )
    const lines = (await readFile(join(target(round), 'manifest.jsonl'), 'utf8')).trim().split('\n')
    faultRun.expect(lines.length === sums.size, `export after a killed one: the manifest names ${lines.length} of ${sums.size} files`)
  }
  return killSome(faultRun, rounds, exportTo, look)
}

/** Kills restores. All tables must exist or none, and another run must complete a killed one. */
async function killRestore(installation: Installation, faultRun: FaultRun, rounds: number): Promise<number> {
  const backup = join(installation.folder, 'backup.tar')
  const made = await dms(installation.dataDir, ['backup', 'create', '--to', backup])
  faultRun.expect(made.code === 0, `backup create ended with ${made.code}: ${made.stderr.slice(-300)}`)
  const databases = new Map<number, Awaited<ReturnType<typeof openSecondDatabase>>>()
  const target = async (round: number) => {
    const database = databases.get(round) ?? (await openSecondDatabase(installation))
    databases.set(round, database)
    return { database, dataDir: join(installation.folder, `restored${round}`), env: { DATABASE_URL: database.url } }
  }
  const restore = async (round: number, timeout = timeoutMs) => {
    const { dataDir, env } = await target(round)
    return dms(dataDir, ['restore', backup], { env, timeout })
  }
  const countOf = async (round: number) => {
    const { query } = (await target(round)).database
    const [table] = await query<{ found: boolean }>(`select to_regclass('documents') is not null as found`)
    return table?.found ? ((await query<{ count: number }>('select count(*)::int as count from documents'))[0]?.count ?? 0) : 0
  }
  const expected = faultRun.ledger.uploads.size
  const look = async (round: number) => {
    const { dataDir, env } = await target(round)
    const count = await countOf(round)
    faultRun.expect(count === 0 || count === expected, `restore killed: ${count} of ${expected} documents are there`)
    // If all tables exist, only the index is missing, and a restore refuses the full installation.
    const again = await restore(round)
    faultRun.expect(
      again.code === 0 || (again.code === 7 && count > 0),
      `restore after a killed one: ${again.code}: ${again.stderr.slice(-300)}`,
    )
    const documents = await countOf(round)
    faultRun.expect(documents === expected, `restore after a killed one: ${documents} of ${expected} documents`)
    const check = await dms(dataDir, ['check', '--checks', 'files,checksums', '--sample', '100%'], { env })
    faultRun.expect(check.code === 0, `restore after a killed one: dms check ended with ${check.code}: ${check.stdout.slice(-300)}`)
  }
  const kills = await killSome(faultRun, rounds, restore, look)
  for (const database of databases.values()) await database.drop()
  return kills
}
