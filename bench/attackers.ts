/**
 * How much do two attackers delay other clients? One has no session and one has; each sends 100 requests a minute with the most expensive bodies.
 * /healthz of a real server is requested every 20 ms, first without the attackers, then with them.
 *
 *   node bench/attackers.ts [SECONDS]
 *
 * Prints p50, p99 and maximum of /healthz, and the growth of the server's memory. Exits with 1 at a p99 of 100 ms or more, or a growth of 200 MB or more.
 */
import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { startServed } from '../test/support/servers/served.ts'

const seconds = Number(process.argv[2] ?? 30)
const requestsPerMinute = 100
const probeIntervalMs = 20
const json = { 'content-type': 'application/json' }

interface Attack {
  method: string
  path: string
  body?: string
}

const repeated = (piece: string, bytes: number): string => piece.repeat(Math.ceil(bytes / piece.length)).slice(0, bytes)
const names = (count: number): string => `{${Array.from({ length: count }, (_, index) => `"k${index}":0`).join()}}`
const numbers = (count: number): string => `[${Array.from({ length: count }, () => 0).join()}]`

/** The first body is one that a server once hung on. */
const anonymous: readonly Attack[] = [
  { method: 'POST', path: '/api/auth/login', body: `[${repeated('0,', 20_000_000)}0]` },
  { method: 'POST', path: '/api/auth/login', body: numbers(31_000) },
  { method: 'POST', path: '/api/auth/register', body: names(5000) },
  {
    method: 'POST',
    path: '/api/auth/register',
    body: JSON.stringify({ username: repeated('\ufdfa', 20_000), email: repeated('a@a.', 5000) }),
  },
  { method: 'POST', path: '/api/auth/login', body: '['.repeat(64_000) },
  { method: 'POST', path: '/api/public/shared/x/verify', body: JSON.stringify({ password: repeated('"\\', 20_000) }) },
  { method: 'GET', path: '/api/openapi.json' },
]
const clauses = (count: number, value: string, type: string, field: string) =>
  JSON.stringify({
    query: { must: Array.from({ length: count }, (_, index) => ({ field, type, value: `${value.slice(0, -3)}${index}` })) },
  })
const signedIn: readonly Attack[] = [
  { method: 'POST', path: '/api/search/advanced', body: clauses(100, repeated('lorem ', 100), 'contains', 'any') },
  { method: 'POST', path: '/api/search/advanced', body: clauses(100, repeated('e ', 100), 'exact', 'content') },
  { method: 'POST', path: '/api/search/advanced', body: clauses(10, repeated('\ufdfa', 100), 'contains', 'any') },
  { method: 'GET', path: `/api/search?q=${encodeURIComponent(repeated('a OR ', 1000))}` },
  { method: 'GET', path: `/api/search?q=${encodeURIComponent(repeated('<b>&', 1000))}` },
  { method: 'POST', path: '/api/users/import?dry_run=true', body: `[${repeated('{"username":"a","email":"b"},', 8_000_000)}0]` },
  {
    method: 'POST',
    path: '/api/users/import?dry_run=true',
    body: `[${Array.from({ length: 9 }, (_, index) => names(9000 + index)).join()}]`,
  },
  { method: 'POST', path: '/api/ocr/queue/retry', body: JSON.stringify({ ids: Array.from({ length: 10_000 }, () => 'none') }) },
  { method: 'POST', path: '/api/labels', body: JSON.stringify({ name: repeated('\ufdfa', 300_000), color: '#112233' }) },
  { method: 'POST', path: '/api/labels', body: `{"ignored":${numbers(99_990)}}` },
]

if (process.argv[2] === 'probe') {
  const [url = '', durationMs] = process.argv.slice(3)
  const times: number[] = []
  for (const until = performance.now() + Number(durationMs); performance.now() < until; await sleep(probeIntervalMs)) {
    const startedAt = performance.now()
    await (await fetch(new URL('/healthz', url))).arrayBuffer()
    times.push(performance.now() - startedAt)
  }
  // The first requests compile the code.
  process.stdout.write(JSON.stringify(times.slice(10).sort((a, b) => a - b)))
  process.exit()
}

const served = await startServed({
  env: { DMS_TRUSTED_PROXIES: '127.0.0.1/32', DMS_API_CALLS_PER_MINUTE: '0', DMS_WORKER_EMBEDDED: 'false' },
})

const metrics = async (): Promise<string> => (await fetch(new URL('/metrics', served.url))).text()
const residentBytes = async (): Promise<number> => Number(/^process_resident_memory_bytes (\S+)/m.exec(await metrics())?.[1])

/** Returns the sorted response times of /healthz in milliseconds. Measured by another process, because sending the bodies takes CPU time. */
async function probe(durationMs: number): Promise<number[]> {
  const prober = spawn(process.execPath, [import.meta.filename, 'probe', served.url, String(durationMs)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  return JSON.parse(await text(prober.stdout)) as number[]
}

/** Sends the bodies without waiting for answers. Returns the number of answers by status. */
async function attack(attacks: readonly Attack[], until: number, headers: Record<string, string>): Promise<Map<number, number>> {
  // Built in advance: the probes of this process need not wait for it.
  const requests = attacks.map(({ body, ...request }) => ({ ...request, body: body === undefined ? null : Buffer.from(body) }))
  const statuses = new Map<number, number>()
  const answers: Promise<void>[] = []
  for (let nth = 0; performance.now() < until; nth++) {
    const { method = 'GET', path = '/', body = null } = requests[nth % requests.length] ?? {}
    const response = fetch(new URL(path, served.url), { method, headers: { ...headers, ...(body ? json : {}) }, body })
    answers.push(
      response.then(
        async (response) => {
          await response.arrayBuffer()
          statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1)
        },
        () => void statuses.set(0, (statuses.get(0) ?? 0) + 1),
      ),
    )
    await sleep(60_000 / requestsPerMinute)
  }
  await Promise.all(answers)
  return statuses
}

const at = (times: readonly number[], share: number): number => times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? 0
const formatted = (times: readonly number[]): string =>
  `p50 ${at(times, 0.5).toFixed(1)} ms, p99 ${at(times, 0.99).toFixed(1)} ms, max ${at(times, 1).toFixed(1)} ms (${times.length} probes)`
const print = (line: string): boolean => process.stdout.write(`${line}\n`)

try {
  await probe(2000)
  const before = await residentBytes()
  print(`/healthz without attackers: ${formatted(await probe(seconds * 500))}`)
  const until = performance.now() + seconds * 1000
  const [times, stranger, user] = await Promise.all([
    probe(seconds * 1000),
    attack(anonymous, until, { 'x-forwarded-for': '198.18.0.1' }),
    attack(signedIn, until, { authorization: `Bearer ${served.token}` }),
  ])
  const grown = (await residentBytes()) - before
  print(`/healthz with attackers:    ${formatted(times)}`)
  for (const [who, statuses] of [
    ['anonymous', stranger],
    ['signed in', user],
  ] as const)
    print(`${who}: ${[...statuses].map(([status, count]) => `${count} × ${status || 'cut'}`).join(', ')}`)
  for (const [line] of (await metrics()).matchAll(/^dms_event_loop_blocked_total.*$/gm)) print(line)
  print(`memory grew by ${(grown / 1e6).toFixed(0)} MB to ${((before + grown) / 1e6).toFixed(0)} MB`)
  process.exitCode = at(times, 0.99) < 100 && grown < 200e6 ? 0 : 1
} finally {
  await served.stop()
  await served.remove()
}
