/** F39: `dms database upgrade` is killed in each of its phases, and before and after each rename of its exchange. */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { Client } from 'pg'
import { joinEmbedded } from '../../../src/db/embedded/embedded.ts'
import { openLog } from '../../../src/log/log.ts'
import { signal } from '../../support/processes/process-tree.ts'
import { until } from '../../support/processes/processes.ts'
import { bareEnvironment, executable, run as runDms } from '../../support/processes/run.ts'
import { checksumOf, createOldArchive, joinOld, missingOldPostgres, oldBinaries } from '../../support/servers/old-archive.ts'
import { type Fault, type FaultContext, type FaultResult, needs, needsProgram } from '../fault.ts'

interface Point {
  name: string
  kill(dataDir: string, programs: readonly string[]): Promise<void>
}

export const killedUpgrades: Fault = {
  id: 'F39',
  name: 'kill -9 of dms database upgrade, in each phase and at each rename',
  isLong: true,
  skipReason: needs(missingOldPostgres, needsProgram('strace')),
  run,
}

async function run({ installation, isShort }: FaultContext): Promise<FaultResult> {
  const problems: string[] = []
  const original = join(installation.folder, 'original')
  const documents = isShort ? 20 : 300
  const list = (await createOldArchive(original, { documents })).documents
  const checksum = await checksumOf(join(original, 'postgres'))
  const expected = await checksumsOfRows(original, { isOld: true })
  const states = { old: 0, between: 0, new: 0 }
  const points = isShort ? [atPhase('rows', 0), atRename(1, 'after'), atRename(2, 'before'), atRename(2, 'after')] : allPoints()
  let [lost, half] = [0, 0]
  for (const [number, { name, kill }] of points.entries()) {
    const dataDir = join(installation.folder, `killed-${number}`)
    await copyFolder(original, dataDir)
    const args = ['--data-dir', dataDir, 'database', 'upgrade', '--old-binaries', oldBinaries]
    await kill(dataDir, args)
    const state = stateOf(dataDir)
    states[state]++
    const stored = join(dataDir, state === 'old' ? 'postgres' : 'postgres-17')
    if ((await checksumOf(stored)) !== checksum) problems.push(`${name}: the old cluster has changed`)
    const first = await runDms(['--data-dir', dataDir, 'documents', 'list', '--limit', '1'])
    if (first.code !== (state === 'old' ? 8 : 0)) problems.push(`${name}: the next command ended with ${first.code}: ${first.stderr}`)
    const again = await runDms(args, { timeout: 300_000 })
    if (again.code !== 0) problems.push(`${name}: the next upgrade ended with ${again.code}: ${again.stderr}`)
    const after = await runDms(['--data-dir', dataDir, 'documents', 'list', '--all', '-o', 'json'])
    if (after.stdout !== list) lost++
    const rows = await checksumsOfRows(dataDir)
    const differing = [...expected].filter(([table, sum]) => rows.get(table) !== sum).map(([table]) => table)
    if (differing.length > 0) half++
    if (differing.length > 0) problems.push(`${name}: differing rows in ${differing.join(', ')}`)
    if ((await checksumOf(join(dataDir, 'postgres-17'))) !== checksum) problems.push(`${name}: the kept cluster has changed`)
    if (existsSync(join(dataDir, 'postgres-upgrade'))) problems.push(`${name}: postgres-upgrade is left`)
    await rm(dataDir, { recursive: true, force: true, maxRetries: 5 })
  }
  const notes = [`left the old database ${states.old} times, the new one ${states.new} times, and was between both ${states.between} times`]
  return { injected: `${points.length} kills`, acknowledged: documents, lost, half, duplicate: 0, outages: [], manual: 0, problems, notes }
}

function allPoints(): Point[] {
  const phases = ['files', 'rows', 'comparing', 'flushing'].flatMap((phase) => [0, 100, 300, 900].map((delayMs) => atPhase(phase, delayMs)))
  const atRenames = [1, 2, 3].flatMap((number) => [atRename(number, 'before'), atRename(number, 'after')])
  return [...phases, ...atRenames]
}

/** Kills the upgrade a given time after it has reported a phase. */
const atPhase = (phase: string, delayMs: number): Point => ({
  name: `${delayMs} ms into ${phase}`,
  async kill(_, args) {
    const child = start(process.execPath, [executable, ...args, '--progress', 'json'])
    const ended = once(child, 'exit')
    let output = ''
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      const wasReached = output.includes(`"phase":"${phase}"`)
      output += text
      if (!wasReached && output.includes(`"phase":"${phase}"`)) void sleep(delayMs).then(() => child.kill('SIGKILL'))
    })
    await ended
  },
})

/** The renames of the exchange, each with a condition that it makes true. */
const renames = [
  { from: 'postgres', isMade: (dataDir: string) => existsSync(join(dataDir, 'postgres-17')) },
  { from: 'postgres-upgrade/new/postgres', isMade: (dataDir: string) => stateOf(dataDir) === 'new' },
  { from: 'postgres-upgrade', isMade: (dataDir: string) => !existsSync(join(dataDir, 'postgres-upgrade')) },
] as const

const delaySeconds = 15

/** Kills the upgrade before a rename, or after it while it waits for the result. */
const atRename = (number: number, moment: 'before' | 'after'): Point => ({
  name: `${moment} rename ${number}`,
  async kill(dataDir, args) {
    const { from, isMade } = renames[number - 1]!
    const action = moment === 'before' ? 'error=EIO:signal=SIGKILL' : `delay_exit=${delaySeconds}s`
    const filter = ['-P', join(dataDir, from), '-e', 'trace=rename', '-e', `inject=rename:${action}`]
    const child = start('strace', ['-f', '--seccomp-bpf', '-qq', '-o', '/dev/null', ...filter, process.execPath, executable, ...args])
    child.stderr?.resume()
    const ended = once(child, 'exit')
    if (moment === 'after') {
      // The first two are true only after the start of the exchange. The third is also true before the folder exists.
      const lock = join(dataDir, 'postgres-upgrade.lock')
      await until(() => existsSync(join(dataDir, 'postgres-upgrade/new')) || child.exitCode !== null, 300_000)
      await until(() => isMade(dataDir) || child.exitCode !== null, 300_000)
      if (existsSync(lock)) signal(Number(readFileSync(lock, 'utf8').split(' ')[1]), 'SIGKILL')
    }
    await ended
  },
})

/** Copies a folder without blocking this process, which serves other faults. */
const copyFolder = (from: string, to: string) => promisify(execFile)('cp', ['-a', from, to])

const start = (program: string, args: readonly string[]): ChildProcess =>
  spawn(program, args, { env: bareEnvironment({ UV_THREADPOOL_SIZE: '1' }), stdio: ['ignore', 'ignore', 'pipe'] })

function stateOf(dataDir: string): 'old' | 'between' | 'new' {
  const file = join(dataDir, 'postgres', 'PG_VERSION')
  if (!existsSync(file)) return 'between'
  return readFileSync(file, 'utf8') === '17\n' ? 'old' : 'new'
}

/** Returns a checksum of the rows of each table. */
async function checksumsOfRows(dataDir: string, { isOld = false } = {}): Promise<Map<string, string>> {
  // Runs on a copy, because the old files are compared byte by byte.
  const copy = `${dataDir}-rows`
  if (isOld) await copyFolder(dataDir, copy)
  const log = openLog({ level: 'silent', format: 'json' })
  const postgres = isOld ? await joinOld(copy) : await joinEmbedded({ dataDir, log })
  const client = new Client({ ...postgres.superuserConnection, ssl: false })
  await client.connect()
  try {
    const { rows } = await client.query<{ name: string }>(`select tablename as name from pg_tables where schemaname = 'public'`)
    const sums = new Map<string, string>()
    for (const { name } of rows) {
      const sum = await client.query<{ sum: string }>(
        `select count(*) || ' ' || coalesce(md5(string_agg(md5(t::text), '' order by md5(t::text))), '') as sum from "${name}" t`,
      )
      sums.set(name, sum.rows[0]?.sum ?? '')
    }
    return sums
  } finally {
    await client.end()
    await postgres.release()
    if (isOld) await rm(copy, { recursive: true, force: true, maxRetries: 5 })
  }
}
