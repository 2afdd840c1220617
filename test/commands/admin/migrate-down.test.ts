import { rename } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { startApp, upload } from '../../support/app.ts'
import { useOwnClock } from '../../support/database-clock.ts'
import { connection, here, type Place } from '../../support/places.ts'
import { storedPath } from '../../support/stored-path.ts'

/** Everything that the schema is made of, as text; columns in their order. */
async function schemaOf(place: Place): Promise<string[]> {
  const client = await connection(place)
  const { rows } = await client.query<{ line: string }>(`
    select line from (
      select format('%s %s %s', c.relkind, c.relname, c.reloptions) from pg_class c
        where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'v', 'S')
      union all select format('%s #%s %s %s %s %s %s %s', c.relname,
          row_number() over (partition by c.oid order by a.attnum), a.attname, format_type(a.atttypid, a.atttypmod),
          a.attnotnull, a.attstorage, a.attstattarget, pg_get_expr(d.adbin, d.adrelid))
        from pg_attribute a join pg_class c on c.oid = a.attrelid left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
        where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'v') and a.attnum > 0 and not a.attisdropped
      union all select format('%s %s', conname, pg_get_constraintdef(oid)) from pg_constraint where connamespace = 'public'::regnamespace
      union all select indexdef from pg_indexes where schemaname = 'public'
      union all select pg_get_functiondef(p.oid) from pg_proc p where p.pronamespace = 'public'::regnamespace and p.proname like 'dms%'
      union all select pg_get_triggerdef(oid) from pg_trigger where not tgisinternal
      union all select name from migrations
    ) as all_of_it (line) order by line`)
  return rows.map(({ line }) => line)
}

/** The rows of tables, as text. */
async function rowsOf(place: Place, tables: readonly string[]): Promise<string[]> {
  const client = await connection(place)
  const found: string[] = []
  for (const table of tables) {
    const { rows } = await client.query<{ row: string }>(`select to_jsonb(t)::text as row from ${table} t order by 1`)
    found.push(...rows.map(({ row }) => `${table} ${row}`))
  }
  return found
}

const kept = ['users', 'documents', 'document_labels', 'labels', 'stored_files', 'shared_links', 'source_files']

test('down to 0013 and up again: every document stays, is found again, and the schema is what it was', async () => {
  const { databaseUrl, dataDir, app, asAda, ada, runJobs } = await startApp()
  await useOwnClock(app.db)
  const place = { databaseUrl, dataDir }
  const document = await upload(asAda, 'harbour.txt', 'Harbour fees for 2026')
  const label = await asAda.labels.create({ name: 'board', color: '#336699' })
  await asAda.labels.assign(label.id, [document.id])
  await runJobs()
  const client = await connection(place)
  expect(await here(place, ['migrate', 'down', '--to', '0027_servers_started', '-y'])).toMatchObject({
    stderr: expect.stringContaining('files were stored under addresses that earlier versions do not know'),
  })
  // As an earlier version stored it.
  const path = await storedPath(app, document.sha256)
  await rename(path, join(dirname(path), document.sha256))
  await client.query('update stored_files set address = sha256')
  await client.query(`insert into sources (owner_id, name, type, url, status) values ($1, 'nas', 'webdav', 'http://nas', 'disabled')`, [
    ada.id,
  ])
  await client.query(`insert into source_files (source_id, path, outcome, removed_at) select id, 'here.txt', 'created', null from sources`)
  const before = { schema: await schemaOf(place), rows: await rowsOf(place, kept) }
  await client.query(`insert into source_files (source_id, path, outcome, removed_at) select id, 'gone.txt', 'created', now() from sources`)
  await client.query(`insert into jobs (kind, queue) values ('reindex', 'index')`)

  const planned = await here(place, ['migrate', 'down', '--to', '0013_servers', '-n', '--json'])
  const names = (JSON.parse(planned.stdout) as { name: string; loses: string }[]).map(({ name }) => name)
  expect([planned.code, names.at(-1), names.includes('0013_servers')]).toEqual([0, '0014_source_syncs', false])
  expect((await here(place, ['migrate', 'down', '--to', '0013_servers', '--no-input'])).code).toBe(2)
  expect(await schemaOf(place)).toEqual(before.schema)

  const down = await here(place, ['migrate', 'down', '--to', '0013_servers', '-y', '-o', 'id'])
  expect([down.code, down.stdout]).toEqual([0, `${names.join('\n')}\n`])
  expect(down.stderr).toMatch(/0020_audit takes with it the audit log/)
  expect((await here(place, ['migrate', 'check'])).code).toBe(8)
  expect((await schemaOf(place)).filter((line) => /search_chunk|source_syncs|audit_entries|api_tokens/.test(line))).toEqual([])
  // As 0006 and 0011 made them, for the dms that knows no better.
  const older = (
    await client.query(
      `select (select count(*)::int from search_entries) as entries, (select count(seen_at)::int from source_files) as seen, (select array_agg(distinct kind) from jobs where queue = 'index') as jobs`,
    )
  ).rows
  expect(older).toEqual([{ entries: 0, seen: 1, jobs: ['index'] }])

  expect((await here(place, ['migrate', '-q'])).code).toBe(0)
  expect(await schemaOf(place)).toEqual(before.schema)
  expect(await rowsOf(place, kept)).toEqual(before.rows)
  await runJobs()
  const { results } = await asAda.call<{ results: { document_id: string }[] }>('GET', '/api/search?q=harbour')
  expect(results.map(({ document_id }) => document_id)).toEqual([document.id])
  expect(await app.search.count()).toBe(1)
})

test('7 over what is frozen, with nothing changed; 75 beside another migrator; 2 for what makes no sense', async () => {
  const { databaseUrl, dataDir } = await startApp()
  const place = { databaseUrl, dataDir }
  const before = await schemaOf(place)
  const frozen = await here(place, ['migrate', 'down', '--steps', '99', '-y'])
  expect([frozen.code, frozen.stderr]).toEqual([7, expect.stringMatching(/no way back over 0013_servers[\s\S]*dms restore/)])
  expect((await here(place, ['migrate', 'down', '--to', 'nonsense', '-y'])).code).toBe(2)
  expect((await here(place, ['migrate', 'down', '--steps', '0', '-y'])).code).toBe(2)
  const client = await connection(place)
  await client.query(`select pg_advisory_lock(hashtext('dms'), hashtext('migrate'))`)
  expect((await here(place, ['migrate', 'down', '-y', '--lock-timeout', '0s'])).code).toBe(75)
  expect(await schemaOf(place)).toEqual(before)
})
