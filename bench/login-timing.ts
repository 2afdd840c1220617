/**
 * Does the duration of a refused sign-in reveal whether a user exists? Sends 60 pairs of a wrong password and an unknown name to a real server,
 * one after the other, each from another address, so that no limit is reached.
 *
 *   node bench/login-timing.ts [PAIRS]
 *
 * Prints the medians and their difference. Exits with 1 if they differ by 15 % or more, and by more than 5 ms.
 */
import { startServed } from '../test/support/servers/served.ts'
import { median } from './quantile.ts'

const pairs = Number(process.argv[2] ?? 60)
const served = await startServed({ env: { DMS_TRUSTED_PROXIES: '127.0.0.1/32', DMS_WORKER_EMBEDDED: 'false' } })
let requestCount = 0

/** Returns the milliseconds until the sign-in is refused. */
async function refusal(username: string): Promise<number> {
  requestCount++
  const headers = { 'content-type': 'application/json', 'x-forwarded-for': `198.18.${requestCount >> 8}.${requestCount & 255}` }
  const startedAt = performance.now()
  const body = JSON.stringify({ username, password: 'a wrong password' })
  const response = await fetch(new URL('/api/auth/login', served.url), { method: 'POST', headers, body })
  await response.arrayBuffer()
  if (response.status !== 401) throw new Error(`${username}: ${response.status}`)
  return performance.now() - startedAt
}

try {
  for (let time = 0; time < 5; time++) await refusal('admin')
  const [known, unknown]: [number[], number[]] = [[], []]
  for (let pair = 0; pair < pairs; pair++) {
    known.push(await refusal('admin'))
    unknown.push(await refusal(`nobody${pair}`))
  }
  const [knownMs, unknownMs] = [median(known), median(unknown)]
  const difference = Math.abs(knownMs - unknownMs)
  const share = difference / Math.max(knownMs, unknownMs)
  process.stdout.write(
    `${pairs} pairs: wrong password ${knownMs.toFixed(1)} ms, unknown name ${unknownMs.toFixed(1)} ms, apart ${difference.toFixed(1)} ms (${(share * 100).toFixed(1)} %)\n`,
  )
  process.exitCode = share < 0.15 || difference < 5 ? 0 : 1
} finally {
  await served.stop()
  await served.remove()
}
