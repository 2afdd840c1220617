/** F10: commands that build something beside the current state (index, restored place, export) are killed. */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Ended, run as runDms } from '../../support/processes/run.ts'
import { commonWord, sha256Of } from '../caller.ts'
import { openSecondDatabase } from '../database/second-database.ts'
import { type Fault, type Given, openTrial, type Told, type Trial } from '../fault.ts'
import type { Place } from '../place.ts'

const mostMs = 120_000

export const killedCommands: Fault = { id: 'F10', name: 'kill -9 of search reindex, restore and documents export', run }

async function run({ isShort, openPlace }: Given): Promise<Told> {
  // One of its own, as it compares with everything that is there.
  const place = await openPlace()
  const server = await place.start()
  const trial = await openTrial(place)
  for (let at = 0; at < (isShort ? 40 : 400); at++) await (at % 4 === 0 ? trial.caller.uploadBytes(200_000) : trial.caller.uploadText())
  const rounds = isShort ? 1 : 12
  let kills = 0
  for (const attempt of [killReindex, killExport, killRestore]) kills += await attempt(place, trial, rounds)
  const told = await trial.conclude(`${kills} kills`)
  await server.kill()
  await place.remove()
  return told
}

const dms = (dataDir: string, args: readonly string[], options: { env?: Record<string, string>; timeout?: number } = {}): Promise<Ended> =>
  runDms([...args, '--data-dir', dataDir], { timeout: mostMs, ...options, env: { DMS_STORAGE_MIN_FREE: '0', ...options.env } })

/** Runs it once completely, then `rounds` times until it is killed. Returns how many kills hit a running process. */
async function killSome(
  { expect }: Trial,
  rounds: number,
  command: (round: number, timeout?: number) => Promise<Ended>,
  look: (round: number) => Promise<void>,
): Promise<number> {
  const begun = performance.now()
  const whole = await command(-1)
  const wholeMs = performance.now() - begun
  expect(whole.code === 0, `not killed it ended with ${whole.code}: ${whole.stderr.slice(-300)}`)
  let kills = 0
  for (let round = 0; round < rounds; round++) {
    const { signal } = await command(round, Math.round(wholeMs * (0.4 + 0.55 * Math.random())))
    kills += Number(signal === 'SIGKILL')
    await look(round)
  }
  return kills
}

/** The current index answers meanwhile, and the next rebuild is complete. */
async function killReindex(place: Place, trial: Trial, rounds: number): Promise<number> {
  const reindex = (_: number, timeout = mostMs) => dms(place.dataDir, ['search', 'reindex'], { timeout })
  const total = async () => (JSON.parse((await trial.caller.search()).body.toString()) as { total: number }).total
  const texts = [...trial.ledger.uploads.values()].filter(({ word }) => word !== null).length
  const look = async () => {
    const found = await total()
    trial.expect(found === texts, `reindex killed: ${commonWord} finds ${found} of ${texts} documents`)
  }
  const kills = await killSome(trial, rounds, reindex, look)
  const { code, stderr } = await dms(place.dataDir, ['search', 'reindex'])
  trial.expect(code === 0, `reindex after a killed one ended with ${code}: ${stderr.slice(-300)}`)
  await look()
  return kills
}

/** A final name always has a complete file, and a manifest lists complete files only. */
async function killExport(place: Place, trial: Trial, rounds: number): Promise<number> {
  const sums = new Set([...trial.ledger.uploads.values()].map(({ sha256 }) => sha256))
  const target = (round: number) => join(place.folder, `export${round}`)
  const exportTo = (round: number, timeout = mostMs) => dms(place.dataDir, ['documents', 'export', '--to', target(round)], { timeout })
  const look = async (round: number) => {
    const names = await readdir(target(round)).catch(() => [])
    const isFinal = (name: string) => !name.startsWith('.') && name !== 'manifest.jsonl'
    for (const name of names.filter(isFinal)) {
      const bytes = await readFile(join(target(round), name))
      trial.expect(sums.has(sha256Of(bytes)), `export killed: ${name} is there with other bytes (${bytes.length})`)
    }
    const again = await exportTo(round)
    trial.expect(again.code === 0, `export into the folder of a killed one ended with ${again.code}: ${again.stderr.slice(-300)}`)
    const all = await readdir(target(round))
    trial.expect(all.filter(isFinal).length === sums.size, `export after a killed one: ${all.filter(isFinal).length} of ${sums.size} files`)
    const lines = (await readFile(join(target(round), 'manifest.jsonl'), 'utf8')).trim().split('\n')
    trial.expect(lines.length === sums.size, `export after a killed one: the manifest names ${lines.length} of ${sums.size} files`)
  }
  return killSome(trial, rounds, exportTo, look)
}

/** All tables or none, and another run completes a killed one. */
async function killRestore(place: Place, trial: Trial, rounds: number): Promise<number> {
  const backup = join(place.folder, 'backup.tar')
  const made = await dms(place.dataDir, ['backup', 'create', '--to', backup])
  trial.expect(made.code === 0, `backup create ended with ${made.code}: ${made.stderr.slice(-300)}`)
  const databases = new Map<number, Awaited<ReturnType<typeof openSecondDatabase>>>()
  const target = async (round: number) => {
    const database = databases.get(round) ?? (await openSecondDatabase(place))
    databases.set(round, database)
    return { database, dataDir: join(place.folder, `restored${round}`), env: { DATABASE_URL: database.url } }
  }
  const restore = async (round: number, timeout = mostMs) => {
    const { dataDir, env } = await target(round)
    return dms(dataDir, ['restore', backup], { env, timeout })
  }
  const countOf = async (round: number) => {
    const { query } = (await target(round)).database
    const [table] = await query<{ found: boolean }>(`select to_regclass('documents') is not null as found`)
    return table?.found ? ((await query<{ count: number }>('select count(*)::int as count from documents'))[0]?.count ?? 0) : 0
  }
  const expected = trial.ledger.uploads.size
  const look = async (round: number) => {
    const { dataDir, env } = await target(round)
    const count = await countOf(round)
    trial.expect(count === 0 || count === expected, `restore killed: ${count} of ${expected} documents are there`)
    // With all tables there it was only the index that was killed, and a full place is refused.
    const again = await restore(round)
    trial.expect(
      again.code === 0 || (again.code === 7 && count > 0),
      `restore after a killed one: ${again.code}: ${again.stderr.slice(-300)}`,
    )
    const documents = await countOf(round)
    trial.expect(documents === expected, `restore after a killed one: ${documents} of ${expected} documents`)
    const check = await dms(dataDir, ['check', '--checks', 'files,checksums', '--sample', '100%'], { env })
    trial.expect(check.code === 0, `restore after a killed one: dms check ended with ${check.code}: ${check.stdout.slice(-300)}`)
  }
  const kills = await killSome(trial, rounds, restore, look)
  for (const database of databases.values()) await database.drop()
  return kills
}
