/** Signals to running commands. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, writeFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { expect, onTestFinished, test } from 'vitest'
import type { App } from '../../../src/app.ts'
import { readTar } from '../../../src/backup/tar.ts'
import { withLock } from '../../../src/db/lock.ts'
import type { Trx } from '../../../src/db/pool.ts'
import { upload } from '../../support/app.ts'
import { readBatch, startCli } from '../../support/cli-transports.ts'
import { meanwhile } from '../../support/lock-waits.ts'
import { bareEnvironment, executable } from '../../support/processes/run.ts'

/** Spawns `dms args…` with piped standard streams. */
function begin(args: readonly string[], env: Record<string, string>) {
  const child: ChildProcessWithoutNullStreams = spawn(process.execPath, [executable, ...args], { env: bareEnvironment(env) })
  onTestFinished(() => void child.kill('SIGKILL'))
  const ended = new Promise<number | NodeJS.Signals | null>((resolve) => child.on('close', (code, signal) => resolve(signal ?? code)))
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  /** Waits until standard error contains the text `count` times. */
  const says = async (text: string, times = 1): Promise<void> => {
    while (stderr.split(text).length <= times) {
      if (child.exitCode !== null || child.signalCode !== null) throw new Error(`it ended, and said: ${stderr}`)
      await sleep(20)
    }
  }
  return { child, ended, says, stderr: () => stderr }
}

const textOf = async (stream: NodeJS.ReadableStream): Promise<string> => (await Array.fromAsync(stream, String)).join('')

/** Starts an upload from standard input and sends only part of the file. */
async function beginUpload() {
  const started = await startCli('HTTP')
  const begun = begin(['documents', 'upload', '-', '--stdin-name', 'a.txt', '--json', '-v'], started.env)
  begun.child.stdin.write('one ')
  await begun.says('as ada')
  return { ...started, ...begun }
}

test('upload: SIGUSR1 prints the progress; SIGINT exits 130 after the current file, with the summary', async () => {
  const { child, says, ended, asAda } = await beginUpload()
  child.kill('SIGUSR1')
  await says('upload  0/1')
  child.kill('SIGINT')
  child.kill('SIGUSR1')
  await says('upload  0/1', 2)
  child.stdin.end('two')
  expect(JSON.parse(await textOf(child.stdout))).toMatchObject({ created: 1, bytes: 7, exit_code: 130 })
  expect(await ended).toBe(130)
  expect(await Array.fromAsync(asAda.documents.list())).toMatchObject([{ filename: 'a.txt', size: 7 }])
})

test('upload: one SIGINT ends a file that does not get finished, with the summary and without a partial file on the server', async () => {
  const { child, ended, asAda } = await beginUpload()
  child.kill('SIGINT')
  expect(JSON.parse(await textOf(child.stdout))).toMatchObject({ created: 0, failed: 0, exit_code: 130 })
  expect(await ended).toBe(130)
  expect(await Array.fromAsync(asAda.documents.list())).toEqual([])
})

test('upload on the server: SIGINT ends a slow file; the next run sends only the rest', async () => {
  const { dms, env, folder } = await startCli('local')
  await mkdir(join(folder, 'in'))
  // Ten small files share a request; a large one has its own.
  for (let index = 0; index < 10; index++) await writeFile(join(folder, 'in', `a${index}.txt`), `small ${index}`)
  await writeFile(join(folder, 'in', 'b.bin'), Buffer.alloc(9 << 20, 1))
  const args = ['documents', 'upload', '-r', join(folder, 'in'), '--concurrency', '1', '-o', 'jsonl']
  const { child, ended } = begin([...args, '--limit-rate', '100kB/s'], env)
  await new Promise((resolve) => child.stdout.once('readable', resolve))
  child.kill('SIGINT')
  const { summary } = readBatch(await textOf(child.stdout))
  expect([await ended, summary]).toMatchObject([130, { created: 10, failed: 0, exit_code: 130 }])
  expect(readBatch((await dms(args)).stdout).summary).toMatchObject({ created: 1, unchanged: 10 })
})

test('upload: a second SIGINT ends it at once, without a partial file on the server', async () => {
  const { child, says, ended, asAda } = await beginUpload()
  child.kill('SIGINT')
  child.kill('SIGUSR1')
  await says('upload  0/1')
  // A repeat within 300 ms is ignored.
  await sleep(400)
  child.kill('SIGINT')
  expect(await ended).toBe('SIGINT')
  expect(await Array.fromAsync(asAda.documents.list())).toEqual([])
})

test('upload: SIGHUP exits 143 after the current files, and the next run sends only the rest', async () => {
  const { dms, env, folder } = await startCli('local')
  const files = 60
  await mkdir(join(folder, 'in'))
  for (let index = 0; index < files; index++) await writeFile(join(folder, 'in', `${index}.txt`), String(index).padEnd(1000, '.'))
  const args = ['documents', 'upload', '-r', join(folder, 'in'), '--concurrency', '1', '-o', 'jsonl']
  const { child, ended } = begin([...args, '--limit-rate', '4kB/s'], env)
  // The folder is locked meanwhile.
  await new Promise((resolve) => child.stdout.once('readable', resolve))
  const busy = await dms([...args.slice(0, -2), '--json'])
  const details = { holder: 'dms documents upload', host: hostname(), pid: child.pid, fix: '--lock-timeout 10m waits for it' }
  expect([busy.code, JSON.parse(busy.stderr)]).toMatchObject([75, { error: { details } }])
  const late = await dms([...args, '--lock-timeout', '1h', '--timeout', '1s'])
  expect(late).toMatchObject({ code: 8, stderr: expect.stringContaining('--timeout has passed: ') })
  child.kill('SIGHUP')
  const { summary } = readBatch(await textOf(child.stdout))
  expect([await ended, summary]).toMatchObject([143, { failed: 0, exit_code: 143 }])
  const created = Number(summary?.created)
  expect(created).toBeGreaterThan(0)
  expect(created).toBeLessThan(files)
  expect(readBatch((await dms(args)).stdout).summary).toMatchObject({ created: files - created, unchanged: created, exit_code: 0 })
})

async function isWaitingForLock({ db }: Pick<App, 'db'>, lock: string, pid: number | undefined): Promise<boolean> {
  const { rows } = await sql`select from pg_stat_activity where application_name like ${`dms ${lock} pid=${pid} %`}
    and query like '%pg_try_advisory_lock%'`.execute(db)
  return rows.length > 0
}

test('a signal ends the wait for the lock of another run: 130 after SIGINT, 143 after SIGTERM', async () => {
  const { app, databaseUrl, dataDir } = await startCli('local')
  const env = { DATABASE_URL: databaseUrl, DMS_DATA_DIR: dataDir }
  for (const [command, signal, code] of [
    ['check', 'SIGINT', 130],
    ['migrate', 'SIGTERM', 143],
  ] as const)
    await withLock(app.database, command, 0, async () => {
      const { child, ended } = begin([command, '--lock-timeout', '1h'], env)
      while (!(await isWaitingForLock(app, command, child.pid))) await sleep(50)
      child.kill(signal)
      expect([command, await ended]).toEqual([command, code])
    })
})

test('maintenance run: SIGINT exits 130 after the current documents, with the summary; both are in the audit log', async () => {
  const { app, databaseUrl, dataDir, asAda, folder } = await startCli('local')
  const { id } = await upload(asAda, 'a.txt', 'a')
  await asAda.documents.delete(id)
  const env = { DATABASE_URL: databaseUrl, DMS_DATA_DIR: dataDir, DMS_CONFIG: join(folder, 'config.toml') }
  await writeFile(env.DMS_CONFIG, '[documents]\ntrash_days = 1\n')
  await sql`update documents set deleted_at = now() - interval '2 days'`.execute(app.db)
  const { child, ended, says } = begin(['maintenance', 'run', '--json'], env)
  const stdout = textOf(child.stdout)
  const lockDocument = (trx: Trx) => sql`select from documents for update`.execute(trx)
  const stop = async () => {
    child.kill('SIGINT')
    child.kill('SIGUSR1')
    await says('maintenance  0/6')
  }
  await meanwhile(app, lockDocument, () => ended, stop)
  expect(await ended).toBe(130)
  expect(JSON.parse(await stdout)).toMatchObject({ trash: 1, total: 1, exit_code: 130 })
  const { rows } = await sql`
    select outcome, details::jsonb as details from audit_entries where action = 'dms maintenance run' order by seq`.execute(app.db)
  expect(rows).toEqual([
    { outcome: 'ok', details: {} },
    { outcome: 'failed', details: { trash: 1, error: 'stopped by SIGINT' } },
  ])
})

test('serve and worker: 0 after a signal while they wait for another migration or for the database', async () => {
  const { app, databaseUrl, dataDir } = await startCli('local')
  const env = { DATABASE_URL: databaseUrl, DMS_DATA_DIR: dataDir }
  await sql`delete from migrations where name = (select max(name) from migrations)`.execute(app.db)
  for (const [words, signal] of [
    [['serve', '--port', '0', '--migrate'], 'SIGTERM'],
    [['worker', '--migrate'], 'SIGINT'],
  ] as const)
    await withLock(app.database, 'migrate', 0, async () => {
      const { child, ended } = begin(words, env)
      while (!(await isWaitingForLock(app, 'migrate', child.pid))) await sleep(50)
      child.kill(signal)
      expect([words[0], await ended]).toEqual([words[0], 0])
    })
  const { child, ended, says, stderr } = begin(['serve', '--port', '0'], { ...env, DATABASE_URL: 'postgres://127.0.0.1:1/none' })
  await says('waiting for the database')
  child.kill('SIGTERM')
  expect([await ended, stderr()]).toEqual([0, expect.not.stringContaining('error')])
})

test('worker: 0 after --max-time and --max-jobs; --watch exits 0 after SIGINT, 143 after SIGTERM', async () => {
  const { env, dms, asAda } = await startCli('local')
  expect((await dms(['worker', '--queues', 'maintenance', '--max-time', '1s'])).code).toBe(0)
  for (const name of ['a', 'b', 'c']) await upload(asAda, `${name}.txt`, name)
  expect((await dms(['worker', '--queues', 'ocr', '--max-jobs', '2', '--concurrency', '2'])).code).toBe(0)
  const states = (await Array.fromAsync(asAda.documents.list())).map(({ status }) => status)
  expect(states.sort()).toEqual(['completed', 'completed', 'pending'])
  expect((await dms(['worker', '--max-jobs', '0'])).code).toBe(2)
  const watching = [
    { words: 'sources status', signal: 'SIGINT', code: 0 },
    { words: 'ocr queue', signal: 'SIGTERM', code: 143 },
  ] as const
  for (const { words, signal, code } of watching) {
    const { child, ended } = begin([...words.split(' '), '--watch', '200ms', '--json'], env)
    let text = ''
    child.stdout.on('data', (more) => {
      text += more
      // After the second look.
      if (/\}\s*\{|\]\s*\[/.test(text)) child.kill(signal)
    })
    expect(await ended).toBe(code)
  }
})

test('export: SIGUSR1 prints the progress; SIGTERM exits 143 after the current file', async () => {
  const { env, asAda } = await startCli('HTTP')
  const big = 'x'.repeat(1 << 20)
  for (const name of ['a', 'b', 'c']) await upload(asAda, `${name}.txt`, name + big)
  const { child, ended, says } = begin(['documents', 'export', '--to', '-'], env)
  // The pipe is full, so the command blocks in the first file.
  await new Promise((resolve) => child.stdout.once('readable', resolve))
  child.kill('SIGUSR1')
  await says('export  0/3')
  child.kill('SIGTERM')
  child.kill('SIGUSR1')
  await says('export  0/3', 2)
  const found: [string, number][] = []
  const reading = (async () => {
    for await (const { path, bytes } of readTar(child.stdout)) found.push([path, Buffer.concat(await Array.fromAsync(bytes)).length])
  })()
  // The current file is complete; the archive has no end marker.
  await expect(reading).rejects.toThrow()
  expect(found).toEqual([[expect.stringMatching(/^a-/), big.length + 1]])
  expect(await ended).toBe(143)
})

test('export: SIGINT within an answer with several files exits 130', async () => {
  const { env, asAda } = await startCli('HTTP')
  // More than the buffers on the way hold.
  for (const name of ['a', 'b', 'c', 'd', 'e', 'f']) await upload(asAda, `${name}.txt`, name.repeat(900_000))
  const { child, ended, says, stderr } = begin(['documents', 'export', '--to', '-'], env)
  await once(child.stdout, 'readable')
  child.kill('SIGINT')
  child.kill('SIGUSR1')
  await says('export  0/6')
  child.stdout.resume()
  expect([await ended, stderr()]).toEqual([130, expect.stringMatching(/^error: the archive is not complete: stopped by SIGINT\n$/m)])
})
