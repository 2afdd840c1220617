/** F27: JSON that is large, deep, or has very many elements, from clients with and without a session, while other clients send small requests. */
import { setTimeout as sleep } from 'node:timers/promises'
import { peakMemory } from '../../support/processes/process-tree.ts'
import { type Fault, type FaultContext, type FaultResult, openFaultRun } from '../fault.ts'
import { openProbe, quantileOf } from './probe.ts'

/** maximum milliseconds of 99 % of the answers to other clients, and of all answers; a short run has few answers, on a slow machine */
const limits = { whole: { p99: 100, max: 1000 }, short: { p99: 1500, max: 5000 } }
/** maximum growth of the server's memory, in bytes */
const mostGrowth = 200_000_000
const megabytes = 1_000_000
/** an Argon2 hash, so that importing a user is cheap */
const passwordHash = '$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$RdescudvJCsgt3ub+b+dWRWJTmaaJObGtbcKDLMcPNg'

interface Attack {
  name: string
  method: string
  path: string
  body: () => string
  isSigned: boolean
  statuses: readonly number[]
}

export const hostileJson: Fault = { id: 'F27', name: 'large and deep JSON, long lists, an import of 10,000 users', isExclusive: true, run }

async function run({ installation, isShort }: FaultContext): Promise<FaultResult> {
  // The heap limit of deploy/dms.service and the launcher.
  const NODE_OPTIONS = '--max-semi-space-size=16'
  const server = await installation.start({ env: { DMS_WORKER_EMBEDDED: 'false', DMS_LOG_LEVEL: 'warn', NODE_OPTIONS } })
  const faultRun = await openFaultRun(installation)
  const { caller, ledger, expect, notes } = faultRun
  const label = await caller.call('POST', '/api/labels', { what: 'label', ...caller.json({ name: 'crowded', color: '#112233' }) })
  const { id: labelId } = JSON.parse(label.body.toString()) as { id: string }
  const probe = openProbe(`${installation.url}/healthz`)
  await sleep(1500)
  const before = await probe.measure()
  const memoryBefore = peakMemory(server.pid)
  // A busy machine is slow without an attack too.
  const limit = isShort ? limits.short : limits.whole
  const most = Math.max(limit.p99, 3 * before.p99)
  const all: number[] = []

  let sent = 0
  let slowest = { name: '', max: 0 }
  for (const { name, method, path, body, isSigned, statuses } of attacks(labelId, isShort)) {
    const bytes = Buffer.from(body())
    const answers = new Set<number>()
    const end = performance.now() + (isShort ? 300 : 3000)
    const sendAll = async () => {
      while (performance.now() < end) {
        sent++
        const answer = await caller.call(method, path, {
          what: name,
          body: bytes as BodyInit,
          headers: { 'content-type': 'application/json', ...(isSigned ? {} : { authorization: '' }) },
        })
        answers.add(answer.status)
      }
    }
    await probe.measure()
    await Promise.all([sendAll(), sendAll()])
    const { times, max, failed } = await probe.measure()
    all.push(...times)
    expect(max <= limit.max, `${name}: an answer of /healthz took ${max.toFixed(0)} ms`)
    expect(failed === 0, `${name}: ${failed} questions to /healthz without an answer`)
    // A refusal may end the connection of a client that still sends.
    const mismatches = [...answers].filter((status) => !statuses.includes(status) && !(status === 0 && bytes.length > megabytes))
    expect(mismatches.length === 0, `${name}: answered with ${mismatches.join()}`)
    if (max > slowest.max) slowest = { name, max }
  }
  await probe.close()
  const p99 = quantileOf(all, 0.99)
  expect(p99 <= most, `/healthz p99 ${p99.toFixed(0)} ms, ${before.p99.toFixed(0)} ms before`)
  const growth = peakMemory(server.pid) - memoryBefore
  expect(growth <= mostGrowth, `the server grew by ${(growth / megabytes).toFixed(0)} MB`)
  notes.push(
    `/healthz p99 of all ${p99.toFixed(0)} ms, ${before.p99.toFixed(0)} ms before, at most ${slowest.max.toFixed(0)} ms (${slowest.name}); peak memory +${(growth / megabytes).toFixed(0)} MB`,
  )
  expect(server.isRunning(), 'the server ended')
  await server.kill()

  // Answers and outages are judged here; the audit judges the remaining data.
  const last = await installation.start()
  ledger.problems.clear()
  const result = await faultRun.finish(`${sent} bodies`)
  await last.kill()
  return result
}

function attacks(labelId: string, isShort: boolean): Attack[] {
  const size = 10 * megabytes
  const refused = [400, 401, 413, 415, 422, 429]
  const zeros = () => `[${'0,'.repeat(size / 2)}0]`
  const login = { method: 'POST', path: '/api/auth/login', isSigned: false, statuses: refused }
  const ids = (count: number) => Array.from({ length: count }, (_, at) => `00000000-0000-4000-8000-${String(at).padStart(12, '0')}`)
  const signed = { isSigned: true, statuses: [...refused, 404] }
  const users = isShort ? 2000 : 10_000
  return [
    { ...login, name: 'zeros, unsigned', body: zeros },
    { ...login, name: 'deep lists, unsigned', body: () => '['.repeat(size) },
    { ...login, name: 'deep objects, unsigned', body: () => '{"a":'.repeat(size / 5) },
    { ...login, name: 'one long string, unsigned', body: () => JSON.stringify({ username: 'a'.repeat(size), password: 'a' }) },
    { ...login, name: 'one long number, unsigned', body: () => `{"username":${'1'.repeat(size)}}` },
    { ...login, name: 'many keys, unsigned', body: () => `{${Array.from({ length: 700_000 }, (_, at) => `"k${at}":0`).join()}}` },
    { ...signed, name: 'zeros, signed', method: 'PUT', path: '/api/settings', body: zeros },
    { ...signed, name: 'deep lists, signed', method: 'PUT', path: '/api/settings', body: () => `{"a":${'['.repeat(900_000)}` },
    {
      ...signed,
      name: '100,000 ids to a label',
      method: 'POST',
      path: `/api/labels/${labelId}/assign`,
      body: () => JSON.stringify({ document_ids: ids(100_000) }),
    },
    {
      ...signed,
      name: '20,000 ids to a label',
      method: 'POST',
      path: `/api/labels/${labelId}/assign`,
      body: () => JSON.stringify({ document_ids: ids(20_000) }),
    },
    {
      ...signed,
      name: '100,000 conditions in a search',
      method: 'POST',
      path: '/api/search/advanced',
      body: () => JSON.stringify({ query: { should: ids(100_000).map((value) => ({ field: 'content', value, type: 'match' })) } }),
    },
    {
      ...signed,
      name: 'an import of many users',
      statuses: [200, 201],
      method: 'POST',
      path: '/api/users/import',
      body: () =>
        JSON.stringify({
          users: Array.from({ length: users }, (_, at) => ({
            username: `imported${at}`,
            email: `imported${at}@example.org`,
            password_hash: passwordHash,
          })),
        }),
    },
  ]
}
