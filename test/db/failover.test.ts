import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { password, startKillable } from '../support/processes/killable.ts'
import { openWebSocket } from '../support/processes/live.ts'
import { bareEnvironment, run } from '../support/processes/run.ts'
import { openPair } from '../support/servers/postgres-pair.ts'

const uploadCount = 60
const killAfter = 25

test('a primary killed during uploads, edits and jobs: server and worker continue on the promoted standby, and nothing is lost or doubled', async () => {
  const { primary, standby, url } = await openPair()
  const dataDir = mkdtempSync(join(tmpdir(), 'dms-failover-'))
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }))
  const env = { DATABASE_URL: url(primary, standby), DMS_OCR_ENABLED: 'false' }
  const server = await startKillable(dataDir, env)
  onTestFinished(() => server.kill())
  const call = async <Answer = unknown>(path: string, init: RequestInit = {}): Promise<Answer> => {
    // As a client with retries: the key makes a repeated upload one upload.
    for (let tries = 0; tries < 200; tries++) {
      const answer = await fetch(new URL(path, server.url), init).catch(() => null)
      if (answer && answer.status < 500) return (await answer.json()) as Answer
      await answer?.body?.cancel()
      await sleep(50)
    }
    throw new Error(`${path}: no answer`)
  }
  const json = { 'content-type': 'application/json' }
  const login = { method: 'POST', headers: json, body: JSON.stringify({ username: 'admin', password }) }
  const { token } = await call<{ token: string }>('/api/auth/login', login)
  const authorization = `Bearer ${token}`
  const socket = await openWebSocket(`${server.url.replace('http', 'ws')}/ws`)
  await socket.join(token, ['document_created'])

  const titles = new Map<string, string>()
  const numbers = Array.from({ length: uploadCount }, (_, number) => number)
  const { promise: enough, resolve } = Promise.withResolvers<void>()
  const uploadAll = async () => {
    for (let number = numbers.shift(); number !== undefined; number = numbers.shift()) {
      const body = new FormData()
      body.append('file', new Blob([`text ${number}`], { type: 'text/plain' }), `${number}.txt`)
      const headers = { authorization, 'idempotency-key': randomUUID() }
      const { document } = await call<{ document: { id: string } }>('/api/documents/upload', { method: 'POST', headers, body })
      const title = `title ${number}`
      await call(`/api/documents/${document.id}`, { method: 'PUT', headers: { authorization, ...json }, body: JSON.stringify({ title }) })
      titles.set(document.id, title)
      if (titles.size === killAfter) resolve()
    }
  }
  const failover = async () => {
    await enough
    await primary.kill()
    await standby.query('select pg_promote()')
  }
  await Promise.all([failover(), ...Array.from({ length: 4 }, uploadAll)])

  for (let tries = 0; tries < 200; tries++) {
    const [row] = await standby.query<{ open: string }>(`select count(*) as open from documents where status <> 'completed'`)
    if (row?.open === '0') break
    await sleep(50)
  }
  const rows = await standby.query<{ id: string; title: string; status: string; jobs: number }>(`
    select id, title, status, (select count(*)::int from jobs where document_id = documents.id and kind in ('ocr', 'extract')) as jobs from documents`)
  expect(new Map(rows.map(({ id, title }) => [id, title]))).toEqual(titles)
  expect(rows.filter(({ status, jobs }) => status !== 'completed' || jobs !== 1)).toEqual([])

  // The socket heard of the later ones through the new connection of LISTEN, each once.
  const heard = () => socket.messages.filter(({ type }) => type === 'document_created').map(({ data }) => data.document_id)
  await expect.poll(() => heard().sort()).toEqual([...titles.keys()].sort())

  const verdict = await call('/api/audit/verify', { headers: { authorization } })
  expect(verdict).toMatchObject({ ok: true })
  const check = await run(['check', '--data-dir', dataDir], { env: bareEnvironment(env) })
  expect(check).toMatchObject({ code: 0 })
})
