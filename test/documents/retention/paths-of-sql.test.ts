/** Plain SQL against documents under retention and under hold: statements made from the catalog, for every table and column. */
import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { Db } from '../../../src/db/pool.ts'
import { startApp, upload } from '../../support/app.ts'
import { trackProtectedDocuments } from '../../support/protected-documents.ts'

vi.setConfig({ testTimeout: 300_000 })

/** Returns another value of a column, by its type. */
const otherValues: Readonly<Record<string, string>> = {
  uuid: 'dms_uuidv7()',
  text: `repeat('0', 64)`,
  int4: '7',
  int8: '7',
  timestamptz: `now() - interval '1 day'`,
}

/** Returns every DELETE, TRUNCATE and UPDATE of one column that the tables allow. */
async function statementsOf(db: Db): Promise<string[]> {
  const { rows } = await sql<{ table: string; kind: string; column: string; type: string }>`
    select relname as table, relkind as kind, attname as column, typname as type from pg_class
    join pg_attribute on attrelid = pg_class.oid and attnum > 0 and not attisdropped join pg_type on pg_type.oid = atttypid
    where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'v') order by 1, attnum`.execute(db)
  const tables = Map.groupBy(rows, ({ table }) => table)
  return Array.from(tables, ([table, columns]) => [
    `delete from ${table}`,
    ...(columns[0]?.kind === 'v' ? [] : [`truncate ${table} cascade`]),
    ...columns.flatMap(({ column, type }) =>
      [...(otherValues[type] ? [otherValues[type]] : []), 'null'].map((value) => `update ${table} set "${column}" = ${value}`),
    ),
  ]).flat()
}

test('no statement of the application or of the owner of the tables destroys a document under retention or hold', async () => {
  const { app, asAda, asAdmin } = await startApp()
  const protectedDocuments = trackProtectedDocuments(app)
  const label = await asAda.labels.create({ name: 'label', color: '#112233' })
  for (const how of ['retention', 'hold'] as const) {
    const { id } = await upload(asAda, `${how}.txt`, how, { labels: label.id })
    await asAda.comments.create(id, { content: 'a comment' })
    await protectedDocuments.protect(id, how)
  }
  await asAdmin.holds.create({ name: 'empty' })
  const role = `dms_test_${randomBytes(6).toString('hex')}`
  await sql`create role ${sql.id(role)}`.execute(app.db)
  onTestFinished(async () => {
    await sql.raw(`drop owned by ${role}; drop role ${role}`).execute(app.db)
  })
  await sql`grant select, insert, update, delete on all tables in schema public to ${sql.id(role)}`.execute(app.db)

  const statements = await statementsOf(app.db)
  const destroyed: string[] = []
  const refused = new Map<string, Set<string>>()
  for (const as of [role, null])
    for (const statement of statements) {
      const trx = await app.db.startTransaction().execute()
      try {
        if (as) await sql`set local role ${sql.id(as)}`.execute(trx)
        await sql.raw(statement).execute(trx)
        await sql`set constraints all immediate`.execute(trx)
        for (const id of await protectedDocuments.listDestroyed(trx)) destroyed.push(`${statement}: ${id}`)
      } catch (error) {
        const { code = String(error) } = error as { code?: string }
        refused.set(statement, (refused.get(statement) ?? new Set()).add(code))
      } finally {
        await trx.rollback().execute()
      }
    }
  expect(destroyed).toEqual([])
  expect(await protectedDocuments.listDamaged()).toEqual([])
  // As the owner, the triggers alone refuse.
  for (const statement of [
    'delete from documents',
    'delete from live_documents',
    'truncate documents cascade',
    'truncate stored_files cascade',
  ])
    expect(refused.get(statement), statement).toContain('DM001')
  for (const statement of ['delete from stored_files', 'delete from users'])
    expect(refused.get(statement), statement).toEqual(new Set(['23503']))
  expect(statements.length).toBeGreaterThan(300)
})
