import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'

const orders = [
  'created_at desc, id desc',
  'updated_at desc, id desc',
  'updated_at, id',
  'document_date desc nulls last, id desc',
  'document_date nulls first, id',
]

test('an index has the order of lists by arrival, change and document date', async () => {
  const { app } = await startApp()
  const plans = await app.db.transaction().execute(async (trx) => {
    await sql`set local enable_sort = off; set local enable_seqscan = off`.execute(trx)
    const explain = async (order: string) => {
      const query = `explain select id from live_documents order by ${order} limit 21`
      const { rows } = await sql<{ 'QUERY PLAN': string }>`${sql.raw(query)}`.execute(trx)
      return rows.map((row) => row['QUERY PLAN']).join('\n')
    }
    const found: string[] = []
    for (const order of orders) found.push(await explain(order))
    return found
  })
  expect(plans.filter((plan) => plan.includes('Sort'))).toEqual([])
  expect(plans.filter((plan) => plan.includes('Index'))).toHaveLength(orders.length)
})

test('a list by title sorts equal prefixes only', async () => {
  const { app } = await startApp()
  const plan = await app.db.transaction().execute(async (trx) => {
    await sql`set local enable_seqscan = off; set local enable_bitmapscan = off`.execute(trx)
    const { rows } = await sql<{ 'QUERY PLAN': string }>`
      explain select id from live_documents where owner_id = '00000000-0000-4000-8000-000000000001'
      order by left(title, 100), title, id limit 21`.execute(trx)
    return rows.map((row) => row['QUERY PLAN']).join('\n')
  })
  expect(plan).toContain('Incremental Sort')
  expect(plan).toContain('documents_by_title')
})

test('a list by warning reads the documents with warnings only', async () => {
  const { app } = await startApp()
  const plan = await app.db.transaction().execute(async (trx) => {
    // Equally good while there are no rows.
    await sql`drop index documents_live; set local enable_seqscan = off; set local enable_sort = off`.execute(trx)
    const { rows } = await sql<{ 'QUERY PLAN': string }>`
      explain select id from live_documents where warnings <> '[]' and warnings @> '[{"code":"truncated"}]'
      order by created_at desc, id desc limit 21`.execute(trx)
    return rows.map((row) => row['QUERY PLAN']).join('\n')
  })
  expect(plan).toContain('documents_with_warnings')
})
