/**
 * Races on two `dms serve` processes with one database: each promise is kept once. Those of shared links (max_views) are in shared-links.test.ts, of
 * comments in comments.test.ts, of WebSockets in websocket-processes.test.ts.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Client, remoteClient } from '../../src/client/remote.ts'
import { type Killable, password, startKillable } from '../support/processes/killable.ts'
import { openWebSocket } from '../support/processes/live.ts'
import { type Served, startServed } from '../support/servers/served.ts'

const settings = { DMS_WORKER_EMBEDDED: 'false', DMS_STORAGE_MIN_FREE: '0' }
const clients: ReturnType<typeof remoteClient>[] = []
let first: Served
let second: Killable

beforeAll(async () => {
  first = await startServed({ env: settings })
  second = await startKillable(first.dataDir, settings)
})

afterAll(async () => {
  await Promise.all(clients.map((client) => client.close()))
  await second?.stop()
  await first?.stop()
  await first?.remove()
})

/** Returns clients with this token, of both servers. */
function both(token: string | null): [Client, Client] {
  const at = (base: string) => {
    const client = remoteClient({ base, token: async () => token })
    clients.push(client)
    return client
  }
  return [at(first.url), at(second.url)]
}

/** Sends twenty requests at once, alternating between the servers. Returns the number of answers by status. */
async function twenty(token: string | null, ask: (client: Client, number: number) => Promise<Response>): Promise<Record<string, number>> {
  const pair = both(token)
  const answers = await Promise.all(Array.from({ length: 20 }, (_, number) => ask(pair[number % 2] as Client, number)))
  await Promise.all(answers.map((answer) => answer.arrayBuffer()))
  return Object.fromEntries(
    Map.groupBy(answers, ({ status }) => status)
      .entries()
      .map(([status, { length }]) => [status, length]),
  )
}

interface Person {
  id: string
  username: string
  token: string
}

const stranger = (): Client => both(null)[0]

async function signIn(username: string): Promise<Person> {
  const { token, user } = await stranger().auth.login(username, password)
  return { id: user.id, username, token }
}

async function person(username: string, role: 'admin' | 'user', by: Client = first.client): Promise<Person> {
  await by.users.create({ username, email: `${username}@example.org`, password, role })
  return signIn(username)
}

test('a user name is used once: of 20 concurrent registrations 19 are 409', async () => {
  const statuses = await twenty(null, (client, number) =>
    client.send('POST', '/api/auth/register', { username: number % 3 ? 'grace' : 'Grace', email: `grace${number}@example.org`, password }),
  )
  expect(statuses).toEqual({ 201: 1, 409: 19 })
  expect((await first.client.users.page({ q: 'grace' })).pagination.total).toBe(1)
})

test('a label name is used once: of 20 concurrent labels 19 are 409', async () => {
  const statuses = await twenty(first.token, (client, number) =>
    client.send('POST', '/api/labels', { name: number % 3 ? 'post' : 'Post', color: '#aabbcc' }),
  )
  expect(statuses).toEqual({ 201: 1, 409: 19 })
  expect((await first.client.labels.list()).filter(({ name }) => name.toLowerCase() === 'post')).toHaveLength(1)
})

test('20 concurrent retry-ocr leave exactly one live job', async () => {
  const { token } = await person('ada', 'user')
  const [ada] = both(token)
  const { id } = await ada.documents.upload({ filename: 'a.txt', size: 5, open: () => [Buffer.from('words')] })
  const answered = new Set<string>()
  const statuses = await twenty(token, async (client) => {
    const response = await client.send('POST', `/api/documents/${id}/retry-ocr`, {})
    answered.add(((await response.clone().json()) as { job_id: string }).job_id)
    return response
  })
  expect([statuses, answered.size]).toEqual([{ 200: 20 }, 20])
  const jobs = (await Array.fromAsync(ada.ocrQueue.list())).filter(({ document_id }) => document_id === id)
  const live = jobs.filter(({ status }) => status === 'pending' || status === 'processing')
  expect(live.map((job) => answered.has(job.id))).toEqual([true])
})

test('five WebSockets per user: of 12 at once on both servers 5 are accepted', async () => {
  const { token } = await person('linus', 'user')
  const answers = await Promise.all(
    Array.from({ length: 12 }, async (_, number) => {
      const socket = await openWebSocket(`${(number % 2 ? first.url : second.url).replace('http', 'ws')}/ws`)
      return (await socket.join(token)).type
    }),
  )
  expect(answers.sort()).toEqual([...Array(5).fill('auth_success'), ...Array(7).fill('error')])
})

/** Ways in which a user stops being an admin. */
const ways: ((client: Client, id: string) => Promise<Response>)[] = [
  (client, id) => client.send('PUT', `/api/users/${id}`, { role: 'user' }),
  (client, id) => client.send('PUT', `/api/users/${id}`, { disabled: true }),
  (client, id) => client.send('DELETE', `/api/users/${id}`),
]

test('of two admins who remove themselves or each other at once, one always stays', async () => {
  let pair = [await person('admin0', 'admin'), await person('admin1', 'admin')]
  const firstAdmin = (await first.client.auth.profile()).id
  await first.client.users.delete(firstAdmin, { documents: 'delete' })
  for (let round = 0; round < 10; round++) {
    const isMutual = round % 2 === 1
    const way = ways[round % 3] as (typeof ways)[number]
    const answers = await Promise.all(pair.map(({ token }, at) => way(both(token)[at] as Client, pair[isMutual ? 1 - at : at]?.id ?? '')))
    const statuses = answers.map(({ status }) => status)
    const [refused, ...others] = statuses.filter((status) => status >= 300)
    expect(others, `round ${round}: ${statuses}`).toEqual([])
    // Who is no admin any more when it is their turn may hear just that.
    expect(isMutual ? [401, 403, 409] : [409], `round ${round}`).toContain(refused)

    const gone = statuses.findIndex((status) => status < 300)
    const stays = pair[isMutual ? gone : 1 - gone] as Person
    const [asStays] = both(stays.token)
    const left = await asStays.users.page({ role: 'admin', disabled: false })
    expect(left.data.map(({ id }) => id)).toEqual([stays.id])
    pair = [stays, await person(`admin${round + 2}`, 'admin', asStays)]
  }
})
