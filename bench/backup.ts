/**
 * What does a backup cost? Memory, time and bytes per second of `dms backup create`, `verify` and `restore` with many documents.
 *
 *   node bench/backup.ts [--documents 100000] [--folder FOLDER]
 *
 * Documents are rows with 2,000 letters of text and a file of 4 kB each, generated without the API. The memory is that of the command's process.
 */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmod, mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import { sql } from 'kysely'
import { loadConfig } from '../src/config/load.ts'
import { openLog } from '../src/log/log.ts'
import { openApp } from '../src/open-app.ts'
import { bareEnvironment, executable } from '../test/support/processes/run.ts'
import { report } from './report/figure.ts'

const { values } = parseArgs({
  options: { documents: { type: 'string', default: '100000' }, folder: { type: 'string', default: tmpdir() } },
})
const documents = Number(values.documents)
const batch = 1000
const sampling = 50

const root = await mkdtemp(join(values.folder, 'dms-bench-backup-'))
// Under root the database runs as another user, who must be able to enter the folder.
await chmod(root, 0o711)
const [from, to, archive, mirror] = ['from', 'to', 'x.tar', 'mirror'].map((name) => join(root, name)) as [string, string, string, string]
try {
  await fill()
  const table = new Table({ head: [`${documents} documents`, 'seconds', 'MB/s', 'memory until a tenth, MB', 'a half', 'the end'] })
  const row = async (name: string, args: string[], size: () => Promise<number>) => {
    const { seconds, peaks } = await measured(args)
    report({ measure: name, unit: 'documents/s', value: documents / seconds, better: 'higher' })
    report({ measure: `${name}, memory`, unit: 'MB', value: (peaks.at(-1) ?? 0) / 1e6, better: 'lower' })
    table.push([name, seconds.toFixed(1), ((await size()) / 1e6 / seconds).toFixed(0), ...peaks.map((bytes) => (bytes / 1e6).toFixed(0))])
  }
  const size = async () => (await stat(archive)).size
  await row('create, archive', ['--data-dir', from, 'backup', 'create', '--to', archive], size)
  await row('create, folder', ['--data-dir', from, 'backup', 'create', '--format', 'dir', '--to', mirror], size)
  await row('create, folder, again', ['--data-dir', from, 'backup', 'create', '--format', 'dir', '--to', mirror], size)
  await row('verify', ['backup', 'verify', archive], size)
  await row('restore, without index', ['--data-dir', to, 'restore', archive, '--no-reindex'], size)
  await row('index', ['--data-dir', to, 'search', 'reindex'], size)
  await row('check, every byte', ['--data-dir', to, 'check', '--sample', '100%'], size)
  console.log(table.toString())
} finally {
  await rm(root, { recursive: true, force: true })
}

async function fill(): Promise<void> {
  const { config } = loadConfig({ env: {}, flags: { data_dir: from, 'storage.min_free': 0 } })
  const app = await openApp(config, openLog({ level: 'warn', format: 'json' }), {
    migrate: 'always',
    creates: true,
    hasStatementTimeout: false,
  })
  const { id } = await app.db
    .insertInto('users')
    .values({ username: 'bench', username_key: 'bench', email: 'bench@example.org', email_key: 'bench@example.org' })
    .returning('id')
    .executeTakeFirstOrThrow()
  for (let start = 0; start < documents; start += batch) {
    const files = Array.from({ length: Math.min(batch, documents - start) }, (_, at) =>
      Buffer.from(`file ${start + at} `.padEnd(4096, 'x')),
    )
    const names = files.map((bytes) => createHash('sha256').update(bytes).digest('hex'))
    await sql`insert into stored_files (sha256, address, size) select name, name, 4096 from unnest(${names}::text[]) name`.execute(app.db)
    await sql`
      insert into documents (owner_id, title, filename, content, status, mime_type, size, sha256, language)
      select ${id}, 'document', 'document.txt', repeat('harbour fees of ' || left(name, 8) || ' ', 80), 'completed', 'text/plain', 4096, name, 'eng'
      from unnest(${names}::text[]) as name`.execute(app.db)
    await sql`
      insert into document_versions (document_id, number, sha256, size, mime_type, filename, origin, created_at)
      select id, 1, sha256, size, mime_type, filename, 'upload', created_at from documents where sha256 = any(${names}::text[])`.execute(
      app.db,
    )
    // Written directly: flushing each file in the store would take longer than the measured work.
    for (const [at, name] of names.entries()) {
      const place = join(from, 'files', name.slice(0, 2), name.slice(2, 4))
      await mkdir(place, { recursive: true })
      await writeFile(join(place, name), files[at] as Buffer)
    }
  }
  await app.close()
}

/** Runs a command. Returns its maximum memory in bytes: in the first tenth of its time, in the first half and in total. */
async function measured(args: readonly string[]): Promise<{ seconds: number; peaks: number[] }> {
  const started = performance.now()
  const env = bareEnvironment({ DMS_STORAGE_MIN_FREE: '0' })
  const child = spawn(process.execPath, [executable, ...args, '-q'], { env, stdio: ['ignore', 'ignore', 'inherit'] })
  const samples: number[] = []
  const timer = setInterval(async () => {
    const status = await readFile(`/proc/${child.pid}/status`, 'utf8').catch(() => '')
    const kilobytes = Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0)
    if (kilobytes > 0) samples.push(kilobytes * 1024)
  }, sampling)
  const code = await new Promise<number | null>((resolve) => child.once('exit', resolve))
  clearInterval(timer)
  if (code !== 0) throw new Error(`dms ${args.join(' ')}: exit ${code}`)
  const seconds = (performance.now() - started) / 1000
  const peaks = [0.1, 0.5, 1].map((share) => Math.max(...samples.slice(0, Math.ceil(samples.length * share))))
  return { seconds, peaks }
}
