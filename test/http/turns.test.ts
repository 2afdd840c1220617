/** Requests of one user at once: they leave connections of the database to others. */
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { upload } from '../support/app.ts'
import { startServer, tokenFor } from '../support/servers/server.ts'

async function start(settings: Parameters<typeof startServer>[0] = {}) {
  const server = await startServer(settings)
  const { app, url, bob, databaseUrl } = server
  // In a transaction, pg_stat_activity does not change.
  const [locker, observer] = [new pg.Client(databaseUrl), new pg.Client(databaseUrl)]
  for (const client of [locker, observer]) {
    await client.connect()
    onTestFinished(() => client.end())
  }
  const send = (token: string, method: string, path: string, body?: object) =>
    fetch(new URL(path, url), {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    })
  return {
    ...server,
    asBobSend: async (method: string, path: string, body?: object) => send(await tokenFor(app, bob), method, path, body),
    asAdaSend: (method: string, path: string, body?: object) => send(server.token, method, path, body),
    /** Holds the locks that a statement takes. */
    lock: (statement: string) => locker.query(`begin; ${statement}`),
    unlock: () => locker.query('rollback'),
    /** Returns how many statements of dms wait for a lock. */
    countBlocked: async (): Promise<number> => {
      const { rows } = await observer.query(
        `select count(*)::int as count from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      )
      return rows[0].count
    },
  }
}

test('changes that wait for a lock: four of one user at once, the others in turn, and another user changes something meanwhile', async () => {
  const { asAda, asAdaSend, asBobSend, lock, unlock, countBlocked } = await start({ 'database.pool_max': 6 })
  const { id } = await upload(asAda, 'a.txt', 'alpha')
  await lock(`select from documents where id = '${id}' for update`)
  const changes = Array.from({ length: 8 }, (_, at) => asAdaSend('PUT', `/api/documents/${id}`, { title: `title ${at}` }))
  await expect.poll(countBlocked).toBe(4)
  expect((await asBobSend('PUT', '/api/settings', { search_results_per_page: 7 })).status).toBe(200)
  expect(await countBlocked()).toBe(4)
  await unlock()
  expect((await Promise.all(changes)).map(({ status }) => status)).toEqual(Array(8).fill(200))
})

test('replacements of one file that wait for a lock: four at once, and another user changes something meanwhile', async () => {
  const { asAda, asBobSend, url, token, lock, unlock, countBlocked } = await start({ 'database.pool_max': 6 })
  const { id } = await upload(asAda, 'a.txt', 'alpha')
  await lock(`select from documents where id = '${id}' for update`)
  const replacements = Array.from({ length: 8 }, (_, at) => {
    const body = new FormData()
    body.set('file', new Blob([`version ${at}`]), 'a.txt')
    return fetch(new URL(`/api/documents/${id}/file`, url), { method: 'PUT', headers: { authorization: `Bearer ${token}` }, body })
  })
  await expect.poll(countBlocked).toBe(4)
  expect((await asBobSend('PUT', '/api/settings', { search_results_per_page: 7 })).status).toBe(200)
  expect(await countBlocked()).toBe(4)
  await unlock()
  expect((await Promise.all(replacements)).map(({ status }) => status)).toEqual(Array(8).fill(201))
})

test('the trash emptied eight times at once: four wait for a lock, and another user changes something meanwhile', async () => {
  const { asAda, asAdaSend, asBobSend, lock, unlock, countBlocked } = await start({ 'database.pool_max': 6 })
  const { id } = await upload(asAda, 'a.txt', 'alpha')
  await asAda.documents.delete(id)
  await lock(`select from documents where id = '${id}' for update`)
  const requests = Array.from({ length: 8 }, async () => (await (await asAdaSend('DELETE', '/api/trash')).json()) as { purged: number })
  await expect.poll(countBlocked).toBe(4)
  expect((await asBobSend('PUT', '/api/settings', { search_results_per_page: 7 })).status).toBe(200)
  expect(await countBlocked()).toBe(4)
  await unlock()
  expect((await Promise.all(requests)).reduce((sum, { purged }) => sum + purged, 0)).toBe(1)
})

test('429 RATE_LIMITED for the 65th upload of one user at once; another user uploads meanwhile', async () => {
  const { url, token, app, bob } = await start()
  const uploadOf = (token: string, stream: ReadableStream<Uint8Array>) =>
    fetch(new URL('/api/documents/upload', url), {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'multipart/form-data; boundary=x' },
      body: stream,
      duplex: 'half',
    } as RequestInit)
  // Different texts: those of one text would wait for each other.
  const headOf = (text: string) => Buffer.from(`--x\r\ncontent-disposition: form-data; name="file"; filename="a.txt"\r\n\r\n${text}`)
  const tail = Buffer.from('\r\n--x--\r\n')
  const ends: (() => void)[] = []
  const slow = (text: string) =>
    new ReadableStream<Uint8Array>({
      start(controller) {
        controller.enqueue(headOf(text))
        ends.push(() => {
          controller.enqueue(tail)
          controller.close()
        })
      },
    })
  const uploads = Array.from({ length: 65 }, (_, index) => uploadOf(token, slow(`alpha ${index}`)))
  const refused = await Promise.race(uploads)
  expect([refused.status, await refused.json()]).toMatchObject([429, { error: { code: 'RATE_LIMITED' } }])
  const others = uploadOf(await tokenFor(app, bob), new Blob([headOf('beta'), tail]).stream())
  expect((await others).status).toBe(201)
  for (const end of ends)
    try {
      end()
    } catch {
      // Its request was refused.
    }
  expect((await Promise.all(uploads)).filter(({ status }) => status === 201)).toHaveLength(64)
})

test('searches: three of one user at once, and another user is answered beside them', async () => {
  const { asAda, asAdaSend, asBobSend, lock, unlock, countBlocked, runJobs } = await start()
  await upload(asAda, 'a.txt', 'alpha')
  await runJobs()
  await lock('lock table search_segment_1 in access exclusive mode')
  const searches = Array.from({ length: 5 }, () => asAdaSend('GET', '/api/search?q=alpha'))
  await expect.poll(countBlocked).toBe(3)
  const others = asBobSend('GET', '/api/search?q=alpha')
  await expect.poll(countBlocked).toBe(4)
  await unlock()
  expect((await Promise.all([...searches, others])).map(({ status }) => status)).toEqual(Array(6).fill(200))
})

test('429 RATE_LIMITED for a change behind a hundred that wait', async () => {
  const { asAda, asAdaSend, lock, unlock, countBlocked } = await start()
  const { id } = await upload(asAda, 'a.txt', 'alpha')
  await lock(`select from documents where id = '${id}' for update`)
  const changes = Array.from({ length: 105 }, () => asAdaSend('PUT', `/api/documents/${id}`, { title: 'title' }))
  const refused = await Promise.race(changes)
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '5'])
  await expect.poll(countBlocked).toBe(4)
  await unlock()
  const statuses = (await Promise.all(changes)).map(({ status }) => status)
  expect(statuses.sort()).toEqual([...Array(104).fill(200), 429])
})
