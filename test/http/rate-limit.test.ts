import { expect, test } from 'vitest'
import { count, network, refuse } from '../../src/http/rate-limit.ts'
import { startApp } from '../support/app.ts'

const limit = { acts: 3, window: 60 }

/** How each act ended: 0, or the seconds to wait. */
const waits = (acts: Promise<void>[]) =>
  Promise.all(
    acts.map((act) => act.then(() => 0).catch((error) => (error.code === 'RATE_LIMITED' ? error.details.retry_after_secs : error))),
  )

test('exactly as many acts as the limit says, also at once; other keys are not touched', async () => {
  const { app } = await startApp()
  const many = await waits(Array.from({ length: 8 }, () => count(app, 'a', limit)))
  expect(many.sort()).toEqual([0, 0, 0, 60, 60, 60, 60, 60])
  expect(await waits([count(app, 'b', limit), refuse(app, 'b', limit)])).toEqual([0, 0])
})

test('the window slides: after the seconds told, and not before, one more act is free', async () => {
  const { app, later } = await startApp()
  for (const wait of [10_000, 10_000, 10_000]) {
    await count(app, 'a', limit)
    await later(wait)
  }
  const [first, second] = await waits([count(app, 'a', limit), refuse(app, 'a', limit)])
  expect([first, second].every((wait) => wait > 20 && wait <= 30)).toBe(true)
  await later((first - 6) * 1000)
  expect((await waits([refuse(app, 'a', limit)]))[0]).toBeGreaterThan(0)
  await later(6000)
  expect(await waits([count(app, 'a', limit)])).toEqual([0])
  const [third] = await waits([count(app, 'a', limit)])
  expect(third > 0 && third <= 10).toBe(true)
})

test('what no window holds any more is removed', async () => {
  const { app, later } = await startApp()
  await waits([count(app, 'a', limit), count(app, 'a', limit)])
  await later(61_000)
  await count(app, 'a', limit)
  expect(await app.db.selectFrom('rate_hits').select('key').execute()).toHaveLength(1)
})

test('other keys are forgotten after a day, a few with each act', async () => {
  const { app, later } = await startApp()
  const acts = async (times: number, prefix: string) => {
    for (let at = 0; at < times; at++) await count(app, `${prefix}${at}`, limit)
  }
  await acts(15, 'old')
  await later(86_401_000)
  await acts(2, 'new')
  const left = await app.db.selectFrom('rate_hits').select('key').execute()
  expect(left.map(({ key }) => key).sort()).toEqual(['new0', 'new1'])
})

test('one client: an IPv4 address, also in IPv6 clothes, or a /64', () => {
  expect(network('192.0.2.7')).toBe('192.0.2.7')
  expect(network('::ffff:192.0.2.7')).toBe('192.0.2.7')
  expect(network('2001:db8:1:2:3:4:5:6')).toBe('2001:db8:1:2::/64')
  expect(network('2001:0DB8:0001:0002::1')).toBe('2001:db8:1:2::/64')
  expect(network('2001:db8::1')).toBe('2001:db8:0:0::/64')
  expect(network('::1')).toBe('0:0:0:0::/64')
  expect(network('fe80::1%eth0')).toBe('fe80:0:0:0::/64')
  expect(network('64:ff9b::192.0.2.1')).toBe('64:ff9b:0:0::/64')
})
