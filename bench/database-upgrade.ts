/**
 * How long does an upgrade of the embedded PostgreSQL take? An archive on PostgreSQL 17 is filled with made documents (see search-corpus.ts), indexed,
 * and brought to the PostgreSQL of this dms by `dms database upgrade`.
 *
 *   node bench/database-upgrade.ts [--documents 100000] [--folder FOLDER] [--archive FOLDER]
 *
 * `--archive` keeps the filled archive for further runs, which upgrade a copy of it. Filling takes longer than the upgrade.
 * The processor time is that of the command and of both servers. It is the better figure on a machine that does other work.
 */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, rename, rm } from 'node:fs/promises'
import { availableParallelism, loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { parseArgs } from 'node:util'
import { loadConfig } from '../src/config/load.ts'
import { openLog } from '../src/log/log.ts'
import { openApp } from '../src/open-app.ts'
import { reindex } from '../src/search/reindex.ts'
import { bareEnvironment, executable, run } from '../test/support/processes/run.ts'
import { checksumOf, databaseEnvironment, joinOld, oldBinaries } from '../test/support/servers/old-archive.ts'
import { fillDocuments } from './fill-documents.ts'
import { cpuOfFinished } from './processor.ts'
import { report } from './report/figure.ts'
import { makeWords } from './search-corpus.ts'

const { values } = parseArgs({
  options: {
    documents: { type: 'string', default: '100000' },
    folder: { type: 'string', default: tmpdir() },
    archive: { type: 'string' },
  },
})
const documents = Number(values.documents)
const root = await mkdtemp(join(values.folder, 'dms-bench-upgrade-'))
// Under root the database runs as another user, who must be able to enter the folder.
await chmod(root, 0o711)
const dataDir = join(root, 'data')

interface Upgraded {
  rows: number
  tables: number
  database_bytes: number
  duration_seconds: number
}

try {
  if (values.archive === undefined) await fillOld(dataDir)
  else await copyArchive(values.archive)
  const before = await checksumOf(join(dataDir, 'postgres'))
  const { upgraded, phases, processorSeconds } = await measureUpgrade()
  const { rows, tables, database_bytes, duration_seconds } = upgraded
  const isUntouched = (await checksumOf(join(dataDir, 'postgres-17'))) === before
  const found = await run(['--data-dir', dataDir, 'search', 'verify', '--sample', '100'], { timeout: 600_000 })
  report({ measure: 'upgrade of the database', unit: 's', value: duration_seconds, better: 'lower' })
  console.log(
    `${documents} documents, ${rows} rows in ${tables} tables, ${(database_bytes / 1e6).toFixed(0)} MB: ${duration_seconds} s, ` +
      `${processorSeconds.toFixed(0)} s of processors; ${phases}; old database ${isUntouched ? 'unchanged' : 'CHANGED'}, ` +
      `search verify ends with ${found.code}; ${availableParallelism()} cores, load ${loadavg()[0]?.toFixed(1)}`,
  )
  if (!isUntouched || found.code !== 0) process.exitCode = 1
} finally {
  await rm(root, { recursive: true, force: true, maxRetries: 5 })
}

/** Copies the database of the archive; fills the archive first if there is none. */
async function copyArchive(archive: string): Promise<void> {
  if (!existsSync(archive)) {
    await fillOld(dataDir)
    await rename(dataDir, archive)
  }
  execFileSync('cp', ['-a', archive, dataDir])
}

/** Fills the old database, with the search index. */
async function fillOld(dataDir: string): Promise<void> {
  await mkdir(dataDir, { mode: 0o711 })
  const old = await joinOld(dataDir)
  const env = { ...databaseEnvironment(old), DMS_DATA_DIR: dataDir, DMS_STORAGE_MIN_FREE: '0' }
  const app = await openApp(loadConfig({ env }).config, openLog({ level: 'error', format: 'json' }), {
    migrate: 'always',
    creates: true,
    hasStatementTimeout: false,
  })
  await fillDocuments(app, documents, makeWords())
  await reindex(app, {})
  await app.close()
  await old.release()
}

/** Runs the command. Returns its result, the seconds of its phases, and the processor time of all its processes. */
async function measureUpgrade(): Promise<{ upgraded: Upgraded; phases: string; processorSeconds: number }> {
  const args = ['--data-dir', dataDir, 'database', 'upgrade', '--old-binaries', oldBinaries, '-o', 'json', '--progress', 'json']
  const before = await cpuOfFinished()
  const child = spawn(process.execPath, [executable, ...args], { env: bareEnvironment(), stdio: ['ignore', 'pipe', 'pipe'] })
  const starts = new Map<string, number>()
  child.stderr.setEncoding('utf8').on('data', (lines: string) => {
    for (const [, phase = ''] of lines.matchAll(/"phase":"(\w+)"/g)) if (!starts.has(phase)) starts.set(phase, performance.now())
  })
  const [stdout] = await Promise.all([text(child.stdout), once(child, 'exit')])
  starts.set('', performance.now())
  const times = [...starts]
  const phases = times.slice(0, -1).map(([phase, start], at) => `${phase} ${(((times[at + 1]?.[1] ?? 0) - start) / 1000).toFixed(1)} s`)
  return {
    upgraded: JSON.parse(stdout) as Upgraded,
    phases: phases.join(', '),
    // The command starts both servers as its children, and waits for their end.
    processorSeconds: (await cpuOfFinished()) - before,
  }
}
