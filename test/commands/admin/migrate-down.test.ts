import { expect, test } from 'vitest'
import { listMigrations } from '../../../src/db/migrate.ts'
import { startApp, upload } from '../../support/app.ts'
import { useOwnClock } from '../../support/database-clock.ts'
import { connection, here, type Place } from '../../support/places.ts'

/**
 * Returns the definition of every schema object, as text; columns in their order. Without the segments of the index: one with entries keeps the layout of
 * the version that made it.
 */
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
      union all select format('%s %s', conname, pg_get_constraintdef(oid)) from pg_constraint
        where connamespace = 'public'::regnamespace and conrelid::regclass::text !~ 'search_segment_[0-9]'
      union all select indexdef from pg_indexes where schemaname = 'public'
      union all select pg_get_functiondef(p.oid) from pg_proc p where p.pronamespace = 'public'::regnamespace and p.proname like 'dms%'
      union all select pg_get_triggerdef(oid) from pg_trigger where not tgisinternal
      union all select name from migrations
    ) as all_of_it (line) where line !~ 'search_segment_[0-9]' order by line`)
  return rows.map(({ line }) => line)
}

/** Returns the rows of `tables`, as text. */
async function rowsOf(place: Place, tables: readonly string[]): Promise<string[]> {
  const client = await connection(place)
  const found: string[] = []
  for (const table of tables) {
    // Lost with the dates: a later worker looks for them again.
    const { rows } = await client.query<{ row: string }>(`select (to_jsonb(t) - 'date_checked')::text as row from ${table} t order by 1`)
    found.push(...rows.map(({ row }) => `${table} ${row}`))
  }
  return found
}

const keptTables = ['users', 'documents', 'document_labels', 'labels', 'stored_files', 'shared_links', 'source_files']

test('down to 0012 and up again: documents stay and are found, and the schema is equal', async () => {
  const { databaseUrl, dataDir, app, asAda, runJobs } = await startApp()
  await useOwnClock(app.db)
  const place = { databaseUrl, dataDir }
  const document = await upload(asAda, 'harbour.txt', 'Harbour fees for 2026')
  const label = await asAda.labels.create({ name: 'board', color: '#336699' })
  await asAda.labels.assign(label.id, [document.id])
  await runJobs()
  const before = { schema: await schemaOf(place), rows: await rowsOf(place, keptTables) }

  const planned = await here(place, ['migrate', 'down', '--to', '0012_search', '-n', '--json'])
  const names = (JSON.parse(planned.stdout) as { name: string; loses: string }[]).map(({ name }) => name)
  const later = (await listMigrations()).filter((name) => name > '0012_search')
  expect([planned.code, names]).toEqual([0, later.reverse()])
  expect((await here(place, ['migrate', 'down', '--to', '0012_search', '--no-input'])).code).toBe(2)
  expect(await schemaOf(place)).toEqual(before.schema)

  // Something that depends on an older table: all or nothing is reverted.
  const client = await connection(place)
  await client.query('create view token_names as select name from api_tokens')
  expect((await here(place, ['migrate', 'down', '--to', '0012_search', '-y'])).code).toBe(1)
  await client.query('drop view token_names')
  expect(await schemaOf(place)).toEqual(before.schema)

  const down = await here(place, ['migrate', 'down', '--to', '0012_search', '-y', '-o', 'id'])
  expect([down.code, down.stdout]).toEqual([0, `${names.join('\n')}\n`])
  expect(down.stderr).toMatch(/reverting 0014_audit loses the audit log/)
  expect((await here(place, ['migrate', 'check'])).code).toBe(8)
  expect((await schemaOf(place)).filter((line) => /audit|api_tokens/.test(line))).toEqual([])

  expect((await here(place, ['migrate', '-q'])).code).toBe(0)
  expect(await schemaOf(place)).toEqual(before.schema)
  // Where the text is from is not known after the return: 0020_reading loses it.
  const rows = before.rows.map((row) => row.replace('"text_source": "text_layer"', '"text_source": null'))
  expect(await rowsOf(place, keptTables)).toEqual(rows)
  const versions = await app.db.selectFrom('document_versions').select(['document_id', 'number', 'sha256', 'origin', 'status']).execute()
  expect(versions).toEqual([{ document_id: document.id, number: 1, sha256: document.sha256, origin: 'upload', status: null }])
  const { results } = await asAda.call<{ results: { document_id: string }[] }>('GET', '/api/search?q=harbour')
  expect(results.map(({ document_id }) => document_id)).toEqual([document.id])
})

test('migrate down: 7 for a frozen migration, with nothing changed; 75 during another migration; 2 for invalid options', async () => {
  const { databaseUrl, dataDir } = await startApp()
  const place = { databaseUrl, dataDir }
  const before = await schemaOf(place)
  const frozen = await here(place, ['migrate', 'down', '--steps', '99', '-y'])
  expect([frozen.code, frozen.stderr]).toEqual([7, expect.stringMatching(/0012_search cannot be reverted[\s\S]*dms restore/)])
  expect((await here(place, ['migrate', 'down', '--to', 'nonsense', '-y'])).code).toBe(2)
  expect((await here(place, ['migrate', 'down', '--steps', '0', '-y'])).code).toBe(2)
  const client = await connection(place)
  await client.query(`select pg_advisory_lock(hashtext('dms'), hashtext('migrate'))`)
  expect((await here(place, ['migrate', 'down', '-y', '--lock-timeout', '0s'])).code).toBe(75)
  expect(await schemaOf(place)).toEqual(before)
})
