import { expect, test } from 'vitest'
import { clientNetwork, countHit, rejectUsedUp } from '../../src/http/rate-limit.ts'
import { startApp } from '../support/app.ts'

const limit = { max: 3, windowSeconds: 60 }

/** Returns the result of each hit: 0, or the seconds to wait. */
const waits = (hits: Promise<void>[]) =>
  Promise.all(
    hits.map((hit) => hit.then(() => 0).catch((error) => (error.code === 'RATE_LIMITED' ? error.details.retry_after_secs : error))),
  )

test('exactly as many hits as the limit, also concurrently; other keys are not affected', async () => {
  const { app } = await startApp()
  const many = await waits(Array.from({ length: 8 }, () => countHit(app, 'a', limit)))
  expect(many.sort()).toEqual([0, 0, 0, 60, 60, 60, 60, 60])
  expect(await waits([countHit(app, 'b', limit), rejectUsedUp(app, 'b', limit)])).toEqual([0, 0])
})

test('the window slides: one more hit is allowed after the returned seconds, and not before', async () => {
  const { app, later } = await startApp()
  for (const wait of [10_000, 10_000, 10_000]) {
    await countHit(app, 'a', limit)
    await later(wait)
  }
  const [first, second] = await waits([countHit(app, 'a', limit), rejectUsedUp(app, 'a', limit)])
  expect([first, second].every((wait) => wait > 20 && wait <= 30)).toBe(true)
  await later((first - 6) * 1000)
  expect((await waits([rejectUsedUp(app, 'a', limit)]))[0]).toBeGreaterThan(0)
  await later(6000)
  expect(await waits([countHit(app, 'a', limit)])).toEqual([0])
  const [third] = await waits([countHit(app, 'a', limit)])
  expect(third > 0 && third <= 10).toBe(true)
})

test('hits outside of every window are removed', async () => {
  const { app, later } = await startApp()
  await waits([countHit(app, 'a', limit), countHit(app, 'a', limit)])
  await later(61_000)
  await countHit(app, 'a', limit)
  expect(await app.db.selectFrom('rate_hits').select('key').execute()).toHaveLength(1)
})

test('other keys are removed after a day, a few with each hit', async () => {
  const { app, later } = await startApp()
  const max = async (times: number, prefix: string) => {
    for (let at = 0; at < times; at++) await countHit(app, `${prefix}${at}`, limit)
  }
  await max(15, 'old')
  await later(86_401_000)
  await max(2, 'new')
  const left = await app.db.selectFrom('rate_hits').select('key').execute()
  expect(left.map(({ key }) => key).sort()).toEqual(['new0', 'new1'])
})

test('one client is an IPv4 address, also mapped to IPv6, or a /64', () => {
  expect(clientNetwork('192.0.2.7')).toBe('192.0.2.7')
  expect(clientNetwork('::ffff:192.0.2.7')).toBe('192.0.2.7')
  expect(clientNetwork('2001:db8:1:2:3:4:5:6')).toBe('2001:db8:1:2::/64')
  expect(clientNetwork('2001:0DB8:0001:0002::1')).toBe('2001:db8:1:2::/64')
  expect(clientNetwork('2001:db8::1')).toBe('2001:db8:0:0::/64')
  expect(clientNetwork('::1')).toBe('0:0:0:0::/64')
  expect(clientNetwork('fe80::1%eth0')).toBe('fe80:0:0:0::/64')
  expect(clientNetwork('64:ff9b::192.0.2.1')).toBe('64:ff9b:0:0::/64')
})
