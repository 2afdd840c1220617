/** The pipelined connection returns what the pool returns, with any number of queries at once. */
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'

const moments = [
  '2026-01-31 12:30:00.123456+00',
  '1969-12-31 23:59:59.9+00',
  '0050-03-15 12:00:00+00',
  '10000-01-01 00:00:00+00',
  'infinity',
]

test('equal values as over the pool, with the first query and with cached columns', async () => {
  const { app } = await startApp()
  const query = sql`
    select m::timestamptz as moment, 9007199254740991::int8 as large, null::text as nothing, array['a', 'b'] as many, '{"a": [1]}'::jsonb as json, 0.5::real as half, true as yes
    from unnest(${moments}::text[]) m`
  const { rows } = await query.execute(app.db)
  expect(rows).toHaveLength(moments.length)
  for (const time of [1, 2, 3]) expect((await query.execute(app.reads)).rows, `time ${time}`).toEqual(rows)
})

test('of many queries one fails alone', async () => {
  const { app } = await startApp()
  const divide = (by: number) => sql<{ result: number }>`select 10 / ${by}::int as result`.execute(app.reads)
  const all = await Promise.allSettled([1, 2, 0, 5, 0, 10].map(divide))
  expect(all.map((one) => (one.status === 'fulfilled' ? one.value.rows[0]?.result : one.reason.code))).toEqual([
    10,
    5,
    '22012',
    2,
    '22012',
    1,
  ])
  expect((await divide(5)).rows).toEqual([{ result: 2 }])
})

test('search statements are prepared and planned once for all values; one fails alone', async () => {
  const { app } = await startApp()
  const db = app.database.prepared
  const plus = async (to: number) => (await sql<{ sum: number }>`select ${to}::int + 1 as sum`.execute(db)).rows[0]?.sum
  for (const to of [1, 5, 6]) expect(await plus(to)).toBe(to + 1)
  const { rows } = await sql<{ plans: number; custom: number }>`
    select generic_plans::int as plans, custom_plans::int as custom from pg_prepared_statements where statement like '%+ 1 as sum'`.execute(
    db,
  )
  expect(rows).toEqual([{ plans: 3, custom: 0 }])
  await expect(sql`select ${0}::int from nowhere`.execute(db)).rejects.toMatchObject({ code: '42P01' })
  const divide = (by: number) => sql<{ result: number }>`select 10 / ${by}::int as result`.execute(db)
  for (const time of [1, 2]) await expect(divide(0), `time ${time}`).rejects.toMatchObject({ code: '22012' })
  expect((await divide(5)).rows).toEqual([{ result: 2 }])
})
