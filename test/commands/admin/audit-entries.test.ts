/** Entries of the audit log by commands that change the installation. */
import { join } from 'node:path'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { listMigrations } from '../../../src/db/migrate.ts'
import type { Db } from '../../../src/db/pool.ts'
import { startApp, upload } from '../../support/app.ts'
import { emptyPlace, here, opened } from '../../support/places.ts'

/** Returns action, outcome and details of the entries of commands. */
async function entriesOf(db: Db): Promise<unknown[]> {
  const entries = await db
    .selectFrom('audit_entries')
    .select(['action', 'outcome', 'details'])
    .where('action', 'like', 'dms %')
    .orderBy('seq')
    .execute()
  return entries.map(({ action, outcome, details }) => [action.slice('dms '.length), outcome, JSON.parse(details)])
}

test('check --repair, backup prune, search reindex and migrate down are entries with what they did; dry runs are none', async () => {
  const { app, asAda, databaseUrl, dataDir } = await startApp()
  const place = { databaseUrl, dataDir }
  const run = async (line: string): Promise<number | null> => (await here(place, line.split(' '))).code
  await upload(asAda, 'a.txt', 'a')
  await sql`delete from jobs`.execute(app.db)
  expect(await run('check --checks status')).toBe(3)
  expect(await run('check --checks status --repair')).toBe(3)
  const folder = join(dataDir, 'backups')
  const archives = ['dms-20260101T000000Z.tar', 'dms-20260102T000000Z.tar']
  for (const name of archives) expect(await run(`backup create --to ${join(folder, name)}`)).toBe(0)
  // The second prune has nothing to do.
  for (const flag of ['-n', '-y', '-y']) expect(await run(`backup prune --keep 1 ${flag}`)).toBe(0)
  for (const line of ['search reindex', 'search reindex -n', 'migrate', 'migrate down -n', 'migrate down -y'])
    expect(await run(line)).toBe(0)
  const created = (name: string) => ['backup create', 'ok', { place: join(folder, name), with_secrets: false }]
  const pruned = { place: folder, keep: 1 }
  expect(await entriesOf(app.db)).toEqual([
    ['check --repair', 'ok', {}],
    ['check --repair', 'ok', { findings: 1, repaired: 1 }],
    ...archives.map(created),
    ['backup prune', 'ok', pruned],
    ['backup prune', 'ok', { ...pruned, deleted: [archives[0]] }],
    ['search reindex', 'ok', {}],
    ['search reindex', 'ok', { documents: 1 }],
    ['migrate down', 'ok', { migrations: (await listMigrations()).slice(-1) }],
  ])
})

test('a check that fails half way has what it did in its second entry', async () => {
  const { app, asAda, databaseUrl, dataDir } = await startApp()
  await upload(asAda, 'a.txt', 'a')
  await sql`delete from jobs`.execute(app.db)
  await sql`drop table shared_links cascade`.execute(app.db)
  expect((await here({ databaseUrl, dataDir }, ['check', '--checks', 'status,links', '--repair'])).code).toBe(1)
  expect((await entriesOf(app.db)).at(-1)).toEqual([
    'check --repair',
    'failed',
    { findings: 1, repaired: 1, error: expect.stringContaining('shared_links') },
  ])
})

test('restore is an entry of the new archive, after those of the backup', async () => {
  const { asAda, databaseUrl, dataDir } = await startApp()
  await upload(asAda, 'a.txt', 'a')
  const archive = join(dataDir, 'x.tar')
  expect((await here({ databaseUrl, dataDir }, ['backup', 'create', '--to', archive])).code).toBe(0)
  const place = await emptyPlace()
  expect((await here(place, ['restore', archive])).code).toBe(0)
  const details = { backup: archive, created_at: expect.any(String), documents: 1, versions: 1, trashed: 0, files: 1, lost: 0, skipped: 0 }
  const { app } = await opened(place)
  expect(await entriesOf(app.db)).toEqual([
    ['backup create', 'ok', { place: archive, with_secrets: false }],
    ['restore', 'ok', details],
  ])
  expect((await here(place, ['audit', 'verify'])).code).toBe(0)
})

test('backup prune without its database: 0 with a warning', async () => {
  const { databaseUrl, dataDir } = await startApp()
  const place = { databaseUrl, dataDir }
  for (const day of [1, 2]) await here(place, ['backup', 'create', '--to', join(dataDir, 'backups', `dms-2026010${day}T000000Z.tar`)])
  const broken = { ...place, databaseUrl: 'postgres://nobody@127.0.0.1:1/none' }
  expect(await here(broken, ['backup', 'prune', '--keep', '1', '-y'])).toMatchObject({
    code: 0,
    stderr: expect.stringContaining('warning: not in the audit log: '),
  })
})
