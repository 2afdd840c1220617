/** What the database refuses by plain SQL: SQLSTATE DM001. */
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import type { Db } from '../../../src/db/pool.ts'
import { startApp, upload } from '../../support/app.ts'

/** Runs a statement and rolls it back. Returns its SQLSTATE; null if it succeeded. */
const sqlstateOf = async (db: Db, statement: string): Promise<string | null> => {
  const trx = await db.startTransaction().execute()
  try {
    await sql.raw(statement).execute(trx)
    return null
  } catch (error) {
    return (error as { code: string }).code
  } finally {
    await trx.rollback().execute()
  }
}

/** Creates a document under retention, one under hold, and one under a released hold. */
const prepare = async () => {
  const { app, asAda, admin } = await startApp()
  const id = async (name: string) => (await upload(asAda, name, crypto.randomUUID())).id
  const [retained, held, free] = [await id('retained.txt'), await id('held.txt'), await id('free.txt')]
  await sql`update documents set retain_until = now() + interval '1 day' where id = ${retained}`.execute(app.db)
  const hold = async (name: string, document: string, { isReleased = false } = {}) => {
    const { rows } = await sql<{ id: string }>`
      insert into holds (name, name_key, created_by) values (${name}, ${name}, ${admin.id}) returning id`.execute(app.db)
    await sql`insert into hold_documents (hold_id, document_id) values (${rows[0]!.id}, ${document})`.execute(app.db)
    if (isReleased) await sql`update holds set released_at = now() where id = ${rows[0]!.id}`.execute(app.db)
    return rows[0]!.id
  }
  const names = [crypto.randomUUID(), crypto.randomUUID()] as const
  return { db: app.db, retained, held, free, hold: await hold(names[0], held), released: await hold(names[1], free, { isReleased: true }) }
}

test('DM001 for the deletion of documents under retention or hold and of their versions', async () => {
  const { db, retained, held, free } = await prepare()
  const outcomes: Record<string, (string | null)[]> = {}
  for (const [name, id] of Object.entries({ retained, held, free }))
    outcomes[name] = [
      await sqlstateOf(db, `delete from documents where id = '${id}'`),
      await sqlstateOf(db, `delete from live_documents where id = '${id}'`),
      await sqlstateOf(db, `delete from document_versions where document_id = '${id}'`),
    ]
  expect(outcomes).toEqual({
    retained: ['DM001', 'DM001', 'DM001'],
    held: ['DM001', 'DM001', 'DM001'],
    free: [null, null, null],
  })
})

test('a retention is lengthened, never shortened or cleared; one that has ended refuses nothing', async () => {
  const { db, retained, free } = await prepare()
  const set = (id: string, value: string) => sqlstateOf(db, `update documents set retain_until = ${value} where id = '${id}'`)
  expect(await set(retained, `now() + interval '2 days'`)).toBeNull()
  expect([await set(retained, `now()`), await set(retained, 'null'), await set(retained, `'infinity'`)]).toEqual([
    'DM001',
    'DM001',
    '23514',
  ])
  await sql`update documents set retain_until = now() - interval '1 second' where id = ${free}`.execute(db)
  expect(await set(free, 'null')).toBe('DM001')
  expect(await sqlstateOf(db, `delete from documents where id = '${free}'`)).toBeNull()
})

test('versions keep document, number and file; the text of an old one may change', async () => {
  const { db, free } = await prepare()
  const set = (change: string) => sqlstateOf(db, `update document_versions set ${change} where document_id = '${free}'`)
  const outcomes = [
    await set(`sha256 = repeat('a', 64)`),
    await set('size = 1'),
    await set('number = 2'),
    await set('document_id = dms_uuidv7()'),
  ]
  expect(outcomes).toEqual(['DM001', 'DM001', 'DM001', 'DM001'])
  expect(await set(`content = 'text', sha256 = sha256`)).toBeNull()
})

test('a hold with documents is released, not deleted, and stays released', async () => {
  const { db, hold, released, free } = await prepare()
  expect(await sqlstateOf(db, `delete from holds where id = '${hold}'`)).toBe('DM001')
  expect(await sqlstateOf(db, `delete from holds where id = '${released}'`)).toBeNull()
  expect(await sqlstateOf(db, `update holds set released_at = null where id = '${released}'`)).toBe('DM001')
  expect(await sqlstateOf(db, `update hold_documents set document_id = '${free}' where hold_id = '${hold}'`)).toBe('DM001')
  expect(await sqlstateOf(db, `update hold_documents set hold_id = '${released}' where hold_id = '${hold}'`)).toBe('DM001')
  expect(await sqlstateOf(db, `update holds set name = 'renamed' where id = '${hold}'`)).toBeNull()
})

test('DM001 for TRUNCATE, also by cascade', async () => {
  const { db } = await prepare()
  for (const tables of ['documents', 'document_versions', 'holds', 'hold_documents', 'stored_files', 'users'])
    expect(await sqlstateOf(db, `truncate ${tables} cascade`), tables).toBe('DM001')
})

test('temporary tables and functions of a caller replace nothing in the triggers', async () => {
  const { db, held, retained } = await prepare()
  const disguise = `create temp table hold_documents (hold_id uuid, document_id uuid) on commit drop;
    create temp table documents_copy on commit drop as select 1;
    create or replace function public.now() returns timestamptz language sql as $$ select 'infinity'::timestamptz $$;
    set local search_path = pg_temp, public, pg_catalog;`
  expect(await sqlstateOf(db, `${disguise} delete from documents where id = '${held}'`)).toBe('DM001')
  expect(await sqlstateOf(db, `${disguise} delete from documents where id = '${retained}'`)).toBe('DM001')
})
