import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { withLock } from '../../src/db/lock.ts'
import { lockName } from '../../src/sources/sync/run-records.ts'
import { startConfigured } from '../../src/worker/run.ts'
import { type CliTransport, cliTransports, readBatch } from '../support/cli-transports.ts'
import { makeFolder } from '../support/data/source-folder.ts'
import { bareEnvironment, executable, type RunOptions } from '../support/processes/run.ts'
import { runHere } from '../support/processes/run-here.ts'
import { startProxy } from '../support/servers/intercepting-proxy.ts'
import { startServer, tokenFor } from '../support/servers/server.ts'

/** Starts a dms with a source folder. Over HTTP its worker syncs. `dms` runs as the admin. */
async function start(transport: CliTransport) {
  const folder = await makeFolder()
  const server = await startServer({
    'sources.local_roots': folder.root,
    'ocr.enabled': false,
    'worker.queues': 'sync',
    'worker.poll_interval': '100ms',
  })
  if (transport === 'HTTP') {
    const worker = await startConfigured(server.app)
    onTestFinished(() => worker.stop(5000))
  }
  const here = {
    DATABASE_URL: server.databaseUrl,
    DMS_DATA_DIR: server.dataDir,
    DMS_SOURCES_LOCAL_ROOTS: folder.root,
    DMS_STORAGE_MIN_FREE: '0',
    DMS_OCR_ENABLED: 'false',
    DMS_AS: 'root',
  }
  const env: Record<string, string> =
    transport === 'local' ? here : { DMS_URL: server.url, DMS_INSECURE_HTTP: '1', DMS_TOKEN: await tokenFor(server.app, server.admin) }
  return {
    ...server,
    ...folder,
    env,
    dms: (args: readonly string[], options: RunOptions = {}) => runHere(args, { ...options, env: { ...env, ...options.env } }),
    add: (name: string, more: readonly string[] = []) =>
      runHere(['sources', 'add', '--name', name, '--type', 'local_folder', '--address', folder.root, ...more], { env }),
    /** Runs in this process. */
    make: (name: string, fields: object = {}) => server.asAdmin.sources.create({ name, type: 'local_folder', url: folder.root, ...fields }),
  }
}

describe.each(cliTransports)('%s:', (transport) => {
  test('add: 6 for an unknown owner', async () => {
    const { add, asAdmin } = await start(transport)
    expect(await add('one', ['--owner', 'nope'])).toMatchObject({ code: 6, stdout: '', stderr: 'error: no user "nope"\n' })
    expect(await asAdmin.sources.list()).toEqual([])
  })

  test('sync: result per source; 3 if a source or file failed; 0 if nothing is due', async () => {
    const { app, dms, make, put, root, asAdmin } = await start(transport)
    await put('a.txt', 'alpha')
    await put('sub/b.txt', 'beta')
    const { id } = await make('one', { sync_interval: 0 })
    const first = await dms(['sources', 'sync', 'one', '-o', 'jsonl'])
    expect(first.code).toBe(0)
    const audited = app.db.selectFrom('audit_entries').select('target').where('action', 'like', '%sync')
    expect(await audited.execute()).toEqual([{ target: `id=${id}` }])
    const { items, summary } = readBatch(first.stdout)
    const counts = { source: 'one', state: 'ok', new: 2, changed: 0, unchanged: 0, deleted: 0, failed: 0, bytes: 9 }
    expect(items).toMatchObject([{ action: 'synced', key: 'one', ...counts }])
    expect(summary).toMatchObject({ command: 'sources sync', sources: [counts], exit_code: 0 })
    expect((await dms(['sources', 'sync', '--due'])).stdout).toBe('')
    expect((await dms(['sources', 'sync', '--all'])).stdout).toMatch(/^one\tok\t0\t0\t2\t0\t0\t0\t0\t[\d.]+\t\n$/)
    await writeFile(Buffer.concat([Buffer.from(`${root}/`), Buffer.from([0x62, 0xff])]), 'not text')
    expect(await dms(['sources', 'sync', 'one'])).toMatchObject({ code: 3, stderr: expect.stringContaining('UTF-8') })
    await asAdmin.sources.create({ name: 'two', type: 'local_folder', url: join(root, 'none') })
    const both = await dms(['sources', 'sync', '--all', '-o', 'jsonl'])
    expect(both.code).toBe(3)
    expect(readBatch(both.stdout).items).toMatchObject([
      { key: 'one', state: 'ok', failed: 1 },
      { key: 'two', state: 'failed', error: { code: 'SOURCE_NOT_FOUND_THERE' } },
    ])
    const refused = await Promise.all([['two'], ['none'], ['one', '--all']].map((given) => dms(['sources', 'sync', ...given])))
    expect(refused.map(({ code }) => code)).toEqual([3, 6, 2])
    const status = await dms(['sources', 'status', '-o', 'csv', '--fields', 'name,state,processed'])
    expect(status.stdout).toBe('NAME,STATE,PROCESSED\none,completed,3\ntwo,failed,0\n')
    const names = async (source: string) =>
      (await dms(['documents', 'list', '--source', source, '--fields', 'filename'])).stdout.trimEnd().split('\n').sort()
    expect(await names('One')).toEqual(['a.txt', 'b.txt'])
    const [one] = await asAdmin.sources.list()
    expect([one?.name, await names(one?.id ?? '')]).toEqual(['one', ['a.txt', 'b.txt']])
    expect((await dms(['documents', 'list', '--source', 'none'])).code).toBe(6)
    expect((await dms(['search', 'query', 'alpha', '--source', 'one'])).code).toBe(0)
  })
})

describe.each(cliTransports)('%s:', (transport) => {
  test('sync: 7 for a disabled source, which stays as it is', async () => {
    const { dms, make, put, asAdmin } = await start(transport)
    await put('a.txt', 'alpha')
    const { id } = await make('one', { sync_interval: 0 })
    await asAdmin.sources.update(id, { status: 'disabled' })
    expect(await dms(['sources', 'sync', 'one'])).toMatchObject({ code: 7, stdout: expect.stringContaining('disabled') })
    const planned = await dms(['sources', 'sync', 'one', '-n', '-o', 'jsonl'])
    expect([planned.code, readBatch(planned.stdout).items]).toMatchObject([7, [{ action: 'failed', error: { code: 'CONFLICT' } }]])
    expect(await asAdmin.sources.get(id)).toMatchObject({ status: 'disabled', document_count: 0, last_error: null })
  })

  test('rollback: returns the documents; -n changes nothing; 2 without a terminal or for a later time; 0 if there is nothing to do', async () => {
    const { dms, make, put, app, asAdmin } = await start(transport)
    for (let file = 0; file < 20; file++) await put(`${file}.txt`, `clean ${file}`)
    await make('share', { sync_interval: 0 })
    expect((await dms(['sources', 'sync', 'share'])).code).toBe(0)
    const before = app.now().toISOString()
    for (let file = 0; file < 20; file++) await put(file < 10 ? `${file}.txt` : `${file}.txt.locked`, `encrypted ${file}`)
    await put('11.txt', 'encrypted')
    const stopped = await dms(['sources', 'sync', 'share', '-o', 'jsonl'])
    expect(stopped.code).toBe(3)
    expect(readBatch(stopped.stdout).items).toMatchObject([{ state: 'failed', error: { code: 'SYNC_LOOKS_DESTRUCTIVE' } }])
    const planned = await dms(['sources', 'sync', 'share', '-n', '-q'])
    expect(planned).toMatchObject({ code: 3, stderr: expect.stringContaining('the sync would stop') })
    expect((await dms(['sources', 'sync', 'share', '-n', '--accept-changes'])).code).toBe(0)
    expect((await dms(['sources', 'sync', 'share', '--accept-changes', '-q'])).code).toBe(0)
    const rollBack = ['sources', 'rollback', 'share', '--before', before, '-o', 'jsonl']
    const refused = await Promise.all([rollBack, [...rollBack.slice(0, 3), '--before', '2999-01-01', '-y']].map((args) => dms(args)))
    expect(refused.map(({ code }) => code)).toEqual([2, 2])
    expect(readBatch((await dms([...rollBack, '-n'])).stdout).summary).toMatchObject({
      dry_run: true,
      restored: 11,
      trashed: 10,
      failed: 0,
    })
    const done = await dms([...rollBack, '-y'])
    expect(done.code).toBe(0)
    const { items, summary } = readBatch(done.stdout)
    expect(items).toContainEqual(expect.objectContaining({ action: 'restored', key: '3.txt' }))
    expect(items).toContainEqual(expect.objectContaining({ action: 'trashed', key: '13.txt.locked' }))
    expect(summary).toMatchObject({ command: 'sources rollback', restored: 11, trashed: 10, unchanged: 9, failed: 0, has_more: false })
    const documents = await Array.fromAsync(asAdmin.documents.list())
    expect(documents.map(({ filename }) => filename).sort()).toEqual(Array.from({ length: 20 }, (_, file) => `${file}.txt`).sort())
    const again = await dms([...rollBack, '-y'])
    expect(readBatch(again.stdout).summary).toMatchObject({ restored: 0, trashed: 0, unchanged: 30 })
  })
})

test('add, list, get, update, test, remove by name or id; 2, 3 and 6 for failures', async () => {
  const { dms, add, root, put, asAdmin } = await start('local')
  await put('a.pdf', 'alpha')
  expect(await add('Scans', ['--pattern', '*.pdf', '--interval', '15m', '-o', 'id'])).toMatchObject({ code: 0, stderr: '' })
  const [made] = await asAdmin.sources.list()
  expect(made).toMatchObject({ name: 'Scans', url: root, file_patterns: ['*.pdf'], sync_interval: 900 })
  const list = await dms(['sources', 'list', '-o', 'csv'])
  expect(list.stdout).toMatch(/^NAME,TYPE,STATUS,DOCUMENTS,LAST_SYNC,NEXT_SYNC\nScans,local_folder,active,0,,20\S+Z\n$/)
  expect((await dms(['sources', 'list', '--status', 'error', '--json'])).stdout).toBe('[]\n')
  expect(JSON.parse((await dms(['sources', 'get', 'scans', '--json'])).stdout)).toEqual(made)
  expect((await dms(['sources', 'update', made?.id ?? '', '--interval', '0', '--pattern', ''])).code).toBe(0)
  expect(await asAdmin.sources.get(made?.id ?? '')).toMatchObject({ sync_interval: 0, next_sync: null, file_patterns: [] })
  expect((await dms(['sources', 'update', 'scans'])).code).toBe(2)
  const tried = await dms(['sources', 'test', 'scans', '--json'])
  expect(JSON.parse(tried.stdout)).toMatchObject({ ok: true, sample: ['a.pdf'] })
  expect((await dms(['sources', 'test', '--type', 'local_folder', '--address', '/etc'])).code).toBe(3)
  expect(await add('scans')).toMatchObject({ code: 0 })
  expect(await dms(['sources', 'get', 'SCANS'])).toMatchObject({ code: 2, stderr: expect.stringContaining(made?.id ?? '') })
  expect(await dms(['sources', 'remove', made?.id ?? ''])).toMatchObject({ code: 2, stderr: expect.stringContaining('--yes') })
  expect((await dms(['sources', 'remove', made?.id ?? '', '-y'])).code).toBe(0)
  expect(await asAdmin.sources.list()).toHaveLength(1)
})

test('the password comes from a file or a pipe and never appears in output', async () => {
  const { dms, root, app } = await start('local')
  const file = join(root, 'password')
  await writeFile(file, 'Zebra-77-crossing\n')
  const dav = ['--name', 'dav', '--address', 'http://127.0.0.1:9/dav/', '--username', 'ana']
  const ended = [
    await dms(['sources', 'add', ...dav, '--password-file', file, '-vv']),
    await dms(['sources', 'update', 'dav', '--password-stdin', '-vv'], { input: 'Zebra-77-crossing' }),
    await dms(['sources', 'get', 'dav', '--json', '-vv']),
    await dms(['sources', 'test', 'dav', '--json', '-vv']),
    await dms(['sources', 'sync', 'dav', '--json', '-vv']),
  ]
  expect(ended.map(({ code }) => code)).toEqual([0, 0, 0, 3, 69])
  for (const { stdout, stderr } of ended) expect(stdout + stderr).not.toMatch(/Zebra|crossing/)
  for (const { stderr } of ended) expect(stderr).toMatch(/"sql":"select .*\$1/)
  const rows = await app.db.selectFrom('sources').selectAll().execute()
  expect(JSON.stringify(rows)).not.toMatch(/Zebra/)
  const moved = await dms(['sources', 'update', 'dav', '--address', 'http://127.0.0.1:10/dav/'])
  expect(moved).toMatchObject({ code: 0, stderr: expect.stringContaining('password were removed') })
})

test('local: --dry-run only lists, --max-files limits a run, --no-wait queues a job', async () => {
  const { dms, make, put, root, asAdmin, runJobs } = await start('local')
  for (const name of ['a', 'b', 'c']) await put(`${name}.txt`, name)
  await make('one')
  const dry = await dms(['sources', 'sync', '--all', '-n', '-o', 'jsonl'])
  expect(dry.code).toBe(0)
  expect(readBatch(dry.stdout)).toMatchObject({ items: [{}, {}, {}], summary: { dry_run: true, created: 3, bytes: 3 } })
  expect((await asAdmin.sources.list())[0]).toMatchObject({ document_count: 0 })
  const gone = await make('two', { url: join(root, 'none') })
  const half = await dms(['sources', 'sync', '--all', '-n', '-o', 'jsonl'])
  expect([half.code, readBatch(half.stdout).items.at(-1)]).toMatchObject([3, { action: 'failed', source: 'two', error: {} }])
  await asAdmin.sources.delete(gone.id, { documents: 'keep' })
  expect((await dms(['sources', 'sync', 'one', '--max-files', '2', '--concurrency', '1'])).stdout).toMatch(/^one\tok\t2\t0\t0\t/)
  expect((await dms(['sources', 'sync', 'one', '--max-files', '2'])).stdout).toMatch(/^one\tok\t1\t0\t2\t/)
  await put('d.txt', 'd')
  const job = (await dms(['sources', 'sync', 'one', '--no-wait', '-o', 'id'])).stdout.trim()
  const [{ id = '' } = {}] = await asAdmin.sources.list()
  expect(await asAdmin.sources.syncStatus(id)).toMatchObject({ state: 'queued', job_id: job })
  await runJobs(['sync'])
  expect(await asAdmin.sources.syncStatus(id)).toMatchObject({ state: 'completed', job_id: job, created: 1 })
})

test('local: 75 for a busy source that was named, but 3 if another one failed', async () => {
  const { dms, make, put, root, app } = await start('local')
  await put('a.txt', 'a')
  await make('good')
  await make('lost', { url: join(root, 'none') })
  const { id } = await make('busy')
  await withLock(app.database, lockName(id), 0, async () => {
    expect(await dms(['sources', 'sync', 'good', 'busy'])).toMatchObject({ code: 75, stderr: expect.stringContaining('source "busy" is') })
    expect(await dms(['sources', 'sync', 'lost', 'busy'])).toMatchObject({
      code: 3,
      stdout: expect.stringMatching(/^lost\tfailed.*\nbusy\tskipped/),
    })
  })
})

test('local: 8 after --timeout while another process syncs the source, and no sync begins', async () => {
  const { dms, make, app, asAdmin } = await start('local')
  const { id, next_sync } = await make('busy', { sync_interval: 3600 })
  await withLock(app.database, lockName(id), 0, async () => {
    expect(await dms(['sources', 'sync', 'busy', '--lock-timeout', '1h', '--timeout', '2s'])).toMatchObject({ code: 8 })
  })
  expect(await asAdmin.sources.get(id)).toMatchObject({ next_sync, last_error: null })
  expect(await app.db.selectFrom('source_syncs').select('id').execute()).toEqual([])
})

test('local: --no-wait queues the sources that are not busy; 75 if a busy one was named or all are busy; 2 for options of a sync in this process', async () => {
  const { dms, make, asAdmin } = await start('local')
  for (const name of ['a', 'b', 'c']) await make(name)
  for (const flags of [['-n'], ['--concurrency', '1'], ['--max-files', '1'], ['--lock-timeout', '0s']])
    expect(await dms(['sources', 'sync', 'a', '--no-wait', ...flags])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("'--no-wait'"),
    })
  const queue = (...args: string[]) => dms(['sources', 'sync', '--no-wait', '--fields', 'source', ...args])
  expect(await queue('a')).toMatchObject({ code: 0, stdout: 'a\n' })
  expect(await queue('a', 'b')).toMatchObject({ code: 75, stdout: 'b\n', stderr: expect.stringContaining('source "a" is already') })
  expect(await queue('--all')).toMatchObject({ code: 0, stdout: 'c\n', stderr: 'a: already being synced\nb: already being synced\n' })
  expect(await queue('--all')).toMatchObject({ code: 75, stdout: '' })
  for (const { id } of await asAdmin.sources.list()) expect((await asAdmin.sources.syncStatus(id)).state).toBe('queued')
})

test('over HTTP: 3 and no counts of the sync before for a sync that is cancelled while it waits', async () => {
  const { dms, make, put, url, app, admin, asAdmin } = await start('local')
  await put('a.txt', 'alpha')
  const { id } = await make('one')
  expect(await dms(['sources', 'sync', 'one'])).toMatchObject({ code: 0 })
  const remote = { DMS_URL: url, DMS_INSECURE_HTTP: '1', DMS_TOKEN: await tokenFor(app, admin) }
  const waiting = runHere(['sources', 'sync', 'one', '-o', 'jsonl'], { env: remote })
  await expect.poll(async () => (await asAdmin.sources.syncStatus(id)).state).toBe('queued')
  await asAdmin.sources.cancelSync(id)
  const { code, stdout } = await waiting
  expect(code).toBe(3)
  expect(readBatch(stdout).items).toMatchObject([{ key: 'one', state: 'failed', unchanged: 0, error: { code: 'CANCELLED' } }])
})

test('local: SIGTERM ends a sync with 143 and keeps fetched documents', async () => {
  const { make, put, env, asAdmin } = await start('local')
  for (let file = 0; file < 400; file++) await put(`${file}.txt`, `file ${file}`)
  await make('one')
  const args = [executable, 'sources', 'sync', 'one', '-o', 'jsonl']
  const child = spawn(process.execPath, args, { env: bareEnvironment(env), stdio: ['ignore', 'pipe', 'ignore'] })
  const [said, ended] = [text(child.stdout), once(child, 'exit')]
  const [{ id = '' } = {}] = await asAdmin.sources.list()
  while ((await asAdmin.sources.syncStatus(id)).created === 0) await sleep(5)
  child.kill('SIGTERM')
  expect((await ended)[0]).toBe(143)
  expect(readBatch(await said)).toMatchObject({ items: [], summary: { command: 'sources sync', exit_code: 143 } })
  const status = await asAdmin.sources.syncStatus(id)
  expect(status).toMatchObject({ state: 'cancelled' })
  expect((await asAdmin.sources.get(id)).document_count).toBe(status.created)
})

test('over HTTP: --dry-run lists what the server would fetch; 3 for a source that fails', async () => {
  const { dms, make, put, root, asAdmin } = await start('HTTP')
  for (const name of ['a', 'b', 'c']) await put(`${name}.txt`, name)
  await make('one')
  await put('unusable\x01', 'x')
  const failing = await dms(['sources', 'sync', 'one', '-n', '-o', 'jsonl'])
  expect(failing.code).toBe(3)
  expect(readBatch(failing.stdout).summary).toMatchObject({ created: 3, failed: 1 })
  await rm(join(root, 'unusable\x01'))
  await make('two', { url: join(root, 'none') })
  const dry = await dms(['sources', 'sync', '--all', '-n', '-o', 'jsonl'])
  expect(dry.code).toBe(3)
  const { items, summary } = readBatch(dry.stdout)
  expect(items.map(({ action, source }) => [action, source])).toEqual([...Array(3).fill(['created', 'one']), ['failed', 'two']])
  expect(summary).toMatchObject({ dry_run: true, created: 3, failed: 1, bytes: 3 })
  const some = await dms(['sources', 'sync', 'one', '-n', '--max-files', '2'])
  expect(some).toMatchObject({ code: 0, stderr: 'one: the first 2 files that the server has found\ndry run: nothing was changed\n' })
  expect((await asAdmin.sources.list())[0]).toMatchObject({ document_count: 0, last_sync: null })
})

test('over HTTP: sync --due and rollback --before use the clock of the server', async () => {
  const { url, dms, make, put, app } = await start('HTTP')
  await put('a.txt', 'one')
  const { id } = await make('ahead', { sync_interval: 86_400 })
  const aheadMs = 3_600_000
  const rollbacks: { before: string }[] = []
  const record = async (path: string, body: Buffer) => {
    if (path.endsWith('/rollback')) rollbacks.push(JSON.parse(body.toString()))
    return undefined
  }
  const env = { DMS_URL: await startProxy(url, record, { aheadMs }) }
  const next_sync = new Date(Date.now() + aheadMs / 2)
  await app.db.updateTable('sources').set({ next_sync }).where('id', '=', id).execute()
  const synced = await dms(['sources', 'sync', '--due', '--json'], { env })
  expect([synced.code, JSON.parse(synced.stdout)]).toMatchObject([0, { sources: [{ source: 'ahead' }] }])
  expect(await dms(['sources', 'rollback', 'ahead', '--before', '10m', '-n'], { env })).toMatchObject({ code: 0 })
  expect(Math.abs(Date.parse(rollbacks[0]?.before ?? '') - Date.now() - aheadMs + 600_000)).toBeLessThan(60_000)
})

test('over HTTP: 2 for server-only options', async () => {
  const { dms, make } = await start('HTTP')
  await make('one')
  for (const flags of [
    ['--max-files', '1'],
    ['--lock-timeout', '1s'],
  ])
    expect(await dms(['sources', 'sync', 'one', ...flags])).toMatchObject({ code: 2, stderr: expect.stringContaining('server only') })
  expect((await dms(['sources', 'rotate-key'])).code).toBe(2)
})

test('rotate-key: 1 for a password of another key; the fix has the name of the source as a shell reads it', async () => {
  const { dms, make, dataDir } = await start('local')
  await make("$(ana)'s", { type: 'webdav', url: 'https://dav.example.org/', username: 'ana', password: 'secret' })
  await writeFile(join(dataDir, 'sources_key'), Buffer.alloc(32).toString('base64'))
  expect(await dms(['sources', 'rotate-key', '--local'])).toMatchObject({
    code: 1,
    stderr: [
      'error: Cannot decrypt the password of source "$(ana)\'s": it was encrypted with another key',
      "         fix: dms sources rotate-key --old-key-file FILE --local, or dms sources update '$(ana)'\\''s' --username USER --password-file FILE --local",
      '',
    ].join('\n'),
  })
})
