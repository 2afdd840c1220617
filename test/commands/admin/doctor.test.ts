import { chmod, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { gunzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { withLock } from '../../../src/db/lock.ts'
import { addressOf } from '../../../src/documents/stored-files.ts'
import { startApp, upload } from '../../support/app.ts'
import { copyUnindexed, dms, emptyPlace, folder, here, type Place } from '../../support/places.ts'
import { startServer } from '../../support/servers/server.ts'

interface Said {
  status: string
  checks: { id: string; status: string; message: string; fix?: string; fixed: string | null }[]
}

async function ask(place: Place, args: readonly string[] = [], env: Record<string, string> = {}) {
  const { code, stdout, stderr } = await here(place, ['doctor', '--json', ...args], { env })
  const said = JSON.parse(stdout) as Said
  return { code, stderr, ...said, of: (id: string) => said.checks.find((check) => check.id === id) }
}

test('doctor: exit 0 without failures; warnings exit 3 with --strict', async () => {
  const { databaseUrl, dataDir, asAda, runJobs } = await startApp()
  await upload(asAda, 'a.txt', 'a')
  await runJobs()
  const place = { databaseUrl, dataDir }
  const { code, status, checks, of } = await ask(place)
  expect(checks.filter((check) => check.status === 'fail')).toEqual([])
  expect([code, status]).toEqual([0, 'warn'])
  expect(of('database')?.message).toMatch(/^PostgreSQL \d+/)
  expect(of('schema')?.status).toBe('ok')
  expect(of('storage')?.status).toBe('ok')
  expect(of('ocr')?.status).toBe('ok')
  expect(of('search')?.message).toContain('all 1 documents')
  expect(of('worker')).toMatchObject({ status: 'warn', fix: expect.stringContaining('dms worker') })
  expect(of('backup')?.status).toBe('warn')
  expect((await ask(place, ['--only', 'worker', '--strict'])).code).toBe(3)
})

test('doctor warns of a backup and a rehearsal whose times are in the future', async () => {
  const { app, databaseUrl, dataDir } = await startApp()
  const last_success_at = new Date(Date.now() + 86_400_000)
  await app.db
    .insertInto('runs')
    .values(['backup', 'rehearsal'].map((name) => ({ name, last_success_at })))
    .execute()
  const { of } = await ask({ databaseUrl, dataDir }, ['--only', 'backup,rehearsal'])
  for (const id of ['backup', 'rehearsal'])
    expect(of(id)).toMatchObject({ status: 'warn', message: expect.stringContaining('in the future: the clock was ahead') })
})

test('doctor prints the command that syncs overdue sources', async () => {
  const { app, databaseUrl, dataDir, asAda } = await startApp()
  await asAda.sources.create({ name: 'inbox', type: 'webdav', url: 'https://dav.example.org/', sync_interval: 60 })
  await app.db
    .updateTable('sources')
    .set({ last_sync: new Date(0) })
    .execute()
  const { of } = await ask({ databaseUrl, dataDir }, ['--only', 'sources'])
  expect(of('sources')).toMatchObject({ status: 'warn', message: expect.stringContaining('inbox'), fix: 'dms sources sync --due' })
})

test('doctor warns that no worker is running if the last heartbeat has a time in the future', async () => {
  const { app, databaseUrl, dataDir } = await startApp()
  await app.db
    .insertInto('workers')
    .values({ name: 'gone/1', queues: ['ocr'], seen_at: new Date(Date.now() + 86_400_000) })
    .execute()
  const { of } = await ask({ databaseUrl, dataDir }, ['--only', 'worker'])
  expect(of('worker')).toMatchObject({ status: 'warn', message: expect.stringContaining('no worker is running') })
})

test('doctor reports problems of index, marker, secrets, jobs and configuration with fixes; --fix applies the safe ones', async () => {
  const { app, databaseUrl, dataDir, asAda, runJobs } = await startApp()
  const place = { databaseUrl, dataDir }
  const { id } = await upload(asAda, 'a.txt', 'a')
  await runJobs()
  await copyUnindexed(app, id)
  await app.db
    .updateTable('jobs')
    .set({ status: 'processing', worker: 'gone/1', lease_until: new Date(0) })
    .where('document_id', '=', id)
    .execute()
  const secret = join(dataDir, 'jwt_secret')
  await chmod(secret, 0o644)
  const found = await ask(place, ['--only', 'search,queue,permissions,exposure'], { DMS_SERVER_HOST: '0.0.0.0' })
  expect([found.code, found.status]).toEqual([3, 'fail'])
  expect(found.of('search')).toMatchObject({ status: 'warn', fix: 'dms search reindex --if-needed', fixed: null })
  expect(found.of('queue')).toMatchObject({ status: 'fail', fixed: null })
  expect(found.of('permissions')).toMatchObject({ status: 'fail', fix: `chmod 600 ${secret}` })
  expect(found.of('exposure')).toMatchObject({ status: 'warn', message: expect.stringContaining('can register') })
  const fixed = await ask(place, ['--only', 'queue,permissions', '--fix'])
  expect(fixed.checks.map((check) => check.fixed)).toEqual([`set mode 600 on ${secret}`, 'queued 1 jobs again'])
  expect((await stat(secret)).mode & 0o777).toBe(0o600)
  const audited = app.db.selectFrom('audit_entries').select('details').where('action', '=', 'dms doctor --fix')
  expect(JSON.parse((await audited.executeTakeFirstOrThrow()).details)).toEqual({
    permissions: `set mode 600 on ${secret}`,
    queue: 'queued 1 jobs again',
  })
  expect((await ask(place, ['--only', 'queue,permissions'])).code).toBe(0)

  await rm(join(dataDir, 'files', '.dms-store'))
  expect((await ask(place, ['--only', 'storage'])).of('storage')).toMatchObject({
    status: 'fail',
    message: expect.stringContaining('not mounted'),
  })
  const wrong = await ask(place, [], { JWT_SECRET: 'short' })
  expect(wrong.of('config')).toMatchObject({ status: 'fail', fix: 'dms config check' })
  expect(wrong.of('database')?.status).toBe('ok')
})

test('the commands of fixes name the configuration file of the command line', async () => {
  const place = await emptyPlace()
  const file = join(await folder(), 'a b.toml')
  await writeFile(file, '[server]\nprot = 80\n', { mode: 0o600 })
  const wrong = await ask(place, ['-c', file, '--only', 'config'])
  expect(wrong.of('config')).toMatchObject({ status: 'fail', fix: `dms config check -c '${file}'` })
})

test('doctor warns of a failed job until its document has been read by a later one', async () => {
  const { app, databaseUrl, dataDir, asAda, runJobs } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'a')
  await runJobs()
  await app.db.updateTable('jobs').set({ status: 'failed' }).where('document_id', '=', id).execute()
  await app.db.updateTable('documents').set({ status: 'failed' }).execute()
  const queue = async () => (await ask({ databaseUrl, dataDir }, ['--only', 'queue'])).of('queue')
  expect(await queue()).toMatchObject({ status: 'warn', message: 'jobs that failed in the last 24 hours: 1' })
  await app.db.updateTable('documents').set({ status: 'completed' }).execute()
  expect(await queue()).toMatchObject({ status: 'ok' })
})

test('doctor: an unmigrated or missing database skips dependent checks and migrates nothing', async () => {
  const place = await emptyPlace()
  const fresh = await ask(place)
  expect(fresh.of('schema')).toMatchObject({ status: 'fail', fix: 'dms migrate' })
  for (const id of ['worker', 'retention', 'versions'])
    expect(fresh.of(id)).toMatchObject({ status: 'skip', message: 'the schema is not current' })
  expect((await ask(place, ['--only', 'schema'])).of('schema')?.status).toBe('fail')
  const gone = await ask({ ...place, databaseUrl: 'postgres://nobody@127.0.0.1:1/none' })
  expect(gone.code).toBe(3)
  expect(gone.of('database')).toMatchObject({
    status: 'fail',
    message: expect.stringContaining('ECONNREFUSED'),
    fix: expect.stringContaining('dms config show database --origin'),
  })
  expect(gone.of('queue')?.status).toBe('skip')
})

test('doctor --url checks reachability, version, clock and token; an unreachable server skips all but the first check', async () => {
  const { url, token, databaseUrl, dataDir } = await startServer()
  const place = { databaseUrl, dataDir }
  const there = await ask(place, ['--url', url], { DMS_TOKEN: token })
  for (const id of ['reachable', 'version', 'clock', 'token']) expect(there.of(id), id).toMatchObject({ status: 'ok' })
  expect(there.of('token')?.message).toBe('signed in as ada (user)')
  expect(there.of('ready')).toMatchObject({ status: 'warn', message: 'degraded: worker' })
  expect(there.code).toBe(0)
  const stranger = await ask(place, ['--url', url, '--only', 'token'])
  expect([stranger.code, stranger.of('token')?.fix]).toEqual([3, `dms login ${url}, or set DMS_TOKEN or DMS_TOKEN_FILE`])
  const alone = await ask(place, ['--url', 'http://127.0.0.1:1', '--only', 'token'], { DMS_TOKEN: token })
  expect([alone.code, alone.of('token')?.fix]).toEqual([3, undefined])
  expect(alone.of('token')).toMatchObject({ status: 'fail', message: expect.stringContaining('cannot be reached') })
  const nowhere = await ask(place, ['--url', 'http://127.0.0.1:1'])
  expect(nowhere.of('reachable')).toMatchObject({ status: 'fail', message: expect.stringContaining('cannot be reached') })
  for (const id of ['clock', 'token']) expect(nowhere.of(id), id).toMatchObject({ status: 'skip', message: 'the server is out of reach' })
})

test('metrics system -o id prints nothing, because it has no ids', async () => {
  const { databaseUrl, dataDir } = await startApp()
  const place = { databaseUrl, dataDir }
  expect(await here(place, ['metrics', 'system', '-o', 'id'])).toMatchObject({ code: 0, stdout: '' })
  expect((await here(place, ['metrics', 'system', '-o', 'tsv'])).stdout).toMatch(/^uptime_seconds\t0$/m)
})

test('doctor --bundle has settings without secrets and no user text, mode 0600; --list; 2 for unknown checks', async () => {
  const { databaseUrl, dataDir, asAda } = await startApp()
  const place = { databaseUrl, dataDir }
  await upload(asAda, 'private.txt', 'a very private text')
  const path = join(await folder(), 'bundle.tar.gz')
  const env = { JWT_SECRET: 'k7Zp0vQ2mWc9sX4tB6nR8yL1dF3gH5jA7eU' }
  expect((await here(place, ['doctor', '--bundle', path, '-q'], { env })).code).toBe(0)
  const bundle = gunzipSync(await readFile(path)).toString()
  expect(bundle).toContain('"0001_users"')
  expect(bundle).toContain('"auth.jwt_secret"')
  for (const hidden of [env.JWT_SECRET, 'private.txt', 'a very private text', databaseUrl]) expect(bundle).not.toContain(hidden)
  expect((await stat(path)).mode & 0o777).toBe(0o600)
  const listed = await here(place, ['doctor', '--list', '--fields', 'id'])
  expect(listed.stdout.split('\n')).toContain('storage')
  expect((await here(place, ['doctor', '--only', 'nonsense'])).code).toBe(2)
})

test('maintenance deletes orphaned files, expired links, read notifications and finished jobs, together or alone; 75 during another run', async () => {
  const { app, ada, asAda, databaseUrl, dataDir, runJobs } = await startApp()
  const { id: read } = await upload(asAda, 'a.txt', 'a')
  const { id: failed } = await upload(asAda, 'b.txt', 'b')
  await runJobs()
  await app.db.updateTable('documents').set({ status: 'failed' }).where('id', '=', failed).execute()
  const long = new Date(Date.now() - 100 * 86_400_000)
  await app.db.deleteFrom('notifications').execute()
  const base = { user_id: ada.id, type: 'test', title: 't', message: 'm' }
  await app.db
    .insertInto('notifications')
    .values([
      { ...base, read_at: long, title: 'old' },
      { ...base, read_at: new Date(), title: 'fresh' },
      { ...base, read_at: null, created_at: long, title: 'unread' },
    ])
    .execute()
  await app.db.updateTable('jobs').set({ finished_at: long }).where('document_id', 'in', [read, failed]).execute()
  const { id: shared, sha256: needed } = await upload(asAda, 'c.txt', 'c')
  const links = await Promise.all(['expired', 'revoked', 'used'].map(() => asAda.sharedLinks.create({ document_id: shared, max_views: 1 })))
  const [expired, revoked, used] = links.map(({ id }) => id)
  const ages = new Date(Date.now() - 400 * 86_400_000)
  await app.db.updateTable('shared_links').set({ expires_at: ages }).where('id', '=', String(expired)).execute()
  await app.db.updateTable('shared_links').set({ revoked_at: long }).where('id', '=', String(revoked)).execute()
  const { id: gone, sha256: unneeded } = await upload(asAda, 'd.txt', 'd')
  const [held, orphan] = await Promise.all([addressOf(app.db, needed), addressOf(app.db, unneeded)])
  await app.db.deleteFrom('documents').where('id', '=', gone).execute()
  // A stored file of an interrupted upload.
  const staged = await app.files.stage(Readable.from([Buffer.from('e')]), 10)
  await staged.commit()
  await staged.discard()

  const place = { databaseUrl, dataDir }
  const all = { files: 2, links: 1, notifications: 1, jobs: 1 }
  const dry = await here(place, ['maintenance', 'run', '-n', '--json'])
  expect(JSON.parse(dry.stdout)).toMatchObject({ type: 'summary', command: 'maintenance run', dry_run: true, total: 5, removed: 5, ...all })
  const busy = await withLock(app.database, 'maintenance', 0, () => here(place, ['maintenance', 'vacuum-jobs']))
  expect([busy.code, busy.stdout]).toEqual([75, ''])
  expect((await here(place, ['maintenance', 'purge-trash'])).stdout).toBe('removed\ttrash\t0\nremoved\tversions\t0\nremoved\tfiles\t2\n')
  expect(await Promise.all([orphan, staged.address, held].map((address) => app.files.size(address)))).toEqual([null, null, 1])
  const { code, stdout } = await here(place, ['maintenance', 'run', '--json'])
  expect([code, JSON.parse(stdout)]).toMatchObject([
    0,
    { ...all, files: 0, dry_run: false, total: 3, items: expect.arrayContaining([{ action: 'removed', key: 'jobs', count: 1 }]) },
  ])
  const kept = await Array.fromAsync(asAda.sharedLinks.list())
  expect(kept.map(({ id }) => id).sort()).toEqual([revoked, used].sort())
  const left = await app.db.selectFrom('notifications').select('title').orderBy('title').execute()
  expect(left.map(({ title }) => title)).toEqual(['fresh', 'unread'])
  expect(await app.db.selectFrom('jobs').select('document_id').where('document_id', 'in', [read, failed]).execute()).toEqual([
    { document_id: failed },
  ])
})

test('config init writes a valid file with mode 0600, once; config env prints the set variables', async () => {
  const place = await emptyPlace()
  const path = join(place.dataDir, 'new.toml')
  expect((await here(place, ['config', 'init', '--to', path])).code).toBe(0)
  expect((await stat(path)).mode & 0o777).toBe(0o600)
  const written = await readFile(path, 'utf8')
  const secret = /^jwt_secret = "(.{64})"$/m.exec(written)?.[1] ?? ''
  expect((await here(place, ['config', 'check', '--strict', '--file', path])).code).toBe(0)
  expect((await here(place, ['config', 'init', '--to', path])).code).toBe(7)
  expect(await readFile(path, 'utf8')).toBe(written)
  for (const to of ['', place.dataDir]) expect((await here(place, ['config', 'init', '--to', to, '--force'])).code).toBe(2)
  expect((await here(place, ['config', 'init', '--to', path, '--force'])).code).toBe(0)
  // Another secret would end all sessions.
  await writeFile(join(place.dataDir, 'jwt_secret'), 'x'.repeat(64))
  const again = await here(place, ['config', 'init', '--to', path, '--force'])
  expect([again.code, again.stderr]).toEqual([0, expect.stringContaining(`stays that of ${place.dataDir}/jwt_secret`)])
  expect(await readFile(path, 'utf8')).toMatch(/^# jwt_secret = ""/m)
  await writeFile(path, written)
  const shown = await here(place, ['config', 'env', '-c', path], {
    env: { DMS_OCR_LANGUAGES: 'deu,eng', DMS_SMTP_FROM: 'dms <a@example.org>' },
  })
  expect(shown.stdout).toContain('DMS_OCR_LANGUAGES=deu,eng\n')
  expect(shown.stdout).toContain('DMS_SMTP_FROM="dms <a@example.org>"\n')
  expect(shown.stdout).not.toContain(secret)
  expect((await here(place, ['config', 'env', '-c', path, '--reveal'])).stdout).toContain(`JWT_SECRET=${secret}\n`)
  const kept = join(place.dataDir, 'secrets.env')
  const apart = ['config', 'env', '-c', path, '--secrets-file', kept]
  expect((await here(place, apart)).stdout).not.toContain(secret)
  expect([await readFile(kept, 'utf8'), (await stat(kept)).mode & 0o777]).toEqual([
    expect.stringContaining(`JWT_SECRET=${secret}\n`),
    0o600,
  ])
  expect(await here(place, apart)).toMatchObject({ code: 7, stderr: expect.stringContaining('secrets.env: file already exists\n') })
})

test('migrate --to stops after that migration, verify rolls back; serve --wait-for-db exits 69', async () => {
  const place = await emptyPlace()
  expect((await here(place, ['migrate', '--to', '0002_sessions', '-q', '-o', 'id'])).stdout).toBe('0001_users\n0002_sessions\n')
  const rehearsed = await here(place, ['migrate', 'verify', '-o', 'id'])
  expect([rehearsed.code, rehearsed.stdout.split('\n')[0]]).toEqual([0, '0003_documents'])
  const status = JSON.parse((await here(place, ['migrate', 'status', '--json'])).stdout) as Record<string, unknown[]>
  expect(status).toMatchObject({ current: '0002_sessions', target: status.pending?.at(-1), unknown: [] })
  expect(status.pending?.[0]).toBe('0003_documents')
  expect(status.migrations?.slice(1, 3)).toEqual([
    { name: '0002_sessions', state: 'applied', applied_at: expect.any(String) },
    { name: '0003_documents', state: 'pending', applied_at: null },
  ])
  expect((await here(place, ['migrate', '--to', 'nonsense'])).code).toBe(2)
  const gone = { ...place, databaseUrl: 'postgres://nobody@127.0.0.1:1/none' }
  const { code, stderr } = await dms(gone, ['serve', '--check', '--wait-for-db', '1s'])
  expect([code, stderr]).toEqual([69, expect.stringContaining('waiting for the database')])
})
