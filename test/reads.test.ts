/** The lane for short reads gives what the pool gives, however many are on their way. */
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { startApp } from './support/app.ts'

const moments = [
  '2026-01-31 12:30:00.123456+00',
  '1969-12-31 23:59:59.9+00',
  '0050-03-15 12:00:00+00',
  '10000-01-01 00:00:00+00',
  'infinity',
]

test('the same values as over the pool, the first time and when the columns are known', async () => {
  const { app } = await startApp()
  const query = sql`
    select m::timestamptz as moment, 9007199254740991::int8 as large, null::text as nothing, array['a', 'b'] as many, '{"a": [1]}'::jsonb as json, 0.5::real as half, true as yes
    from unnest(${moments}::text[]) m`
  const { rows } = await query.execute(app.db)
  expect(rows).toHaveLength(moments.length)
  for (const time of [1, 2, 3]) expect((await query.execute(app.reads)).rows, `time ${time}`).toEqual(rows)
})

test('one that fails among many fails alone', async () => {
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
