import { expect, test } from 'vitest'
import { createClient } from '../../src/client/client.ts'

const busy = (status: number, headers: Record<string, string> = {}) =>
  Response.json({ error: { code: status === 429 ? 'RATE_LIMITED' : 'SERVICE_UNAVAILABLE', message: 'later' } }, { status, headers })

/** Creates a client of a fake server that gives these answers and repeats the last one. Records request bodies and pauses. */
function clientOf(...answers: (() => Response)[]) {
  const bodies: string[] = []
  const pauses: number[] = []
  const client = createClient(
    async (request) => {
      bodies.push(await request.text())
      const answer = answers.length > 1 ? answers.shift() : answers[0]
      return (answer as () => Response)()
    },
    {
      pause: async (seconds) => {
        pauses.push(seconds)
      },
    },
  )
  return { client, bodies, pauses }
}

const created = () => Response.json({ id: 'x' }, { status: 201 })
const file = { filename: 'a.txt', size: 3, open: () => [Buffer.from('abc')] }

test('429 and 503 are retried after retry-after, and the file is sent again', async () => {
  const { client, bodies, pauses } = clientOf(
    () => busy(429, { 'retry-after': '12' }),
    () => busy(503),
    created,
  )
  expect(await client.documents.upload(file)).toMatchObject({ id: 'x', created: true })
  expect(pauses).toEqual([12, 5])
  expect(bodies.map((body) => body.includes('abc'))).toEqual([true, true, true])
})

test('429 is returned after five minutes of waiting, for a longer retry-after, and for a body that can be sent once', async () => {
  const retrying = clientOf(() => busy(429, { 'retry-after': '100' }))
  await expect(retrying.client.documents.get('x')).rejects.toMatchObject({ status: 429, code: 'RATE_LIMITED' })
  expect(retrying.pauses).toEqual([100, 100, 100])
  const long = clientOf(() => busy(429, { 'retry-after': '900' }))
  await expect(long.client.documents.get('x')).rejects.toMatchObject({ status: 429 })
  expect(long.pauses).toEqual([])
  const pipe = clientOf(() => busy(503))
  await expect(pipe.client.documents.upload({ ...file, size: null })).rejects.toMatchObject({ status: 503 })
  expect(pipe.pauses).toEqual([])
})

test('500 is not retried', async () => {
  const { client, bodies, pauses } = clientOf(() => busy(500, { 'retry-after': '1' }))
  await expect(client.documents.get('x')).rejects.toMatchObject({ status: 500 })
  expect([bodies.length, pauses.length]).toEqual([1, 0])
})

const lost = (code: string) => () => {
  throw Object.assign(new Error(code), { code })
}
const answer = () => Response.json({ id: 'x' })

test('ECONNREFUSED is retried four times with growing delays', async () => {
  const { client, pauses } = clientOf(lost('ECONNREFUSED'))
  await expect(client.labels.create({ name: 'a', color: '#123456' })).rejects.toMatchObject({ code: 'ECONNREFUSED' })
  expect(pauses).toEqual([0.25, 0.5, 1, 2])
})

test('ECONNRESET is retried for idempotent requests only', async () => {
  const reading = clientOf(lost('ECONNRESET'), answer)
  expect(await reading.client.documents.get('x')).toEqual({ id: 'x' })
  const making = clientOf(lost('ECONNRESET'), answer)
  await expect(making.client.labels.create({ name: 'a', color: '#123456' })).rejects.toMatchObject({ code: 'ECONNRESET' })
  const uploading = clientOf(lost('ECONNRESET'), created)
  await expect(uploading.client.documents.upload(file)).rejects.toMatchObject({ code: 'ECONNRESET' })
  const keyed = clientOf(lost('UND_ERR_SOCKET'), created)
  expect(await keyed.client.documents.upload(file, { idempotencyKey: 'k' })).toMatchObject({ id: 'x' })
  expect(keyed.bodies.map((body) => body.includes('abc'))).toEqual([true, true])
  const wrong = clientOf(lost('DEPTH_ZERO_SELF_SIGNED_CERT'))
  await expect(wrong.client.documents.get('x')).rejects.toMatchObject({ code: 'DEPTH_ZERO_SELF_SIGNED_CERT' })
  expect([making, uploading, wrong].map(({ pauses }) => pauses)).toEqual([[], [], []])
})

test('a deletion whose answer was lost is repeated: 204 and 404 are success then, and no other error', async () => {
  const gone = () => Response.json({ error: { code: 'DOCUMENT_NOT_FOUND', message: 'no' } }, { status: 404 })
  const deleted = () => new Response(null, { status: 204 })
  for (const last of [gone, deleted]) {
    const { client, pauses } = clientOf(lost('ECONNRESET'), last)
    await client.documents.delete('x')
    expect(pauses).toEqual([0.25])
  }
  await expect(clientOf(gone).client.documents.delete('x')).rejects.toMatchObject({ status: 404 })
  await expect(clientOf(lost('ECONNREFUSED'), gone).client.documents.delete('x')).rejects.toMatchObject({ status: 404 })
  const held = () => Response.json({ error: { code: 'RETENTION', message: 'no' } }, { status: 409 })
  await expect(clientOf(lost('ECONNRESET'), held).client.documents.delete('x')).rejects.toMatchObject({ code: 'RETENTION' })
  await expect(clientOf(lost('ECONNRESET'), gone).client.documents.get('x')).rejects.toMatchObject({ status: 404 })
})

test('401 UNAUTHORIZED renews the token once; 401 for the password of a link does not', async () => {
  const refusal = (code: string) => Response.json({ error: { code, message: 'no' } }, { status: 401 })
  const seen: (string | null)[] = []
  const asked: (string | null)[] = []
  const client = (code: string) =>
    createClient(
      async ({ headers }) => {
        seen.push(headers.get('authorization'))
        return refusal(code)
      },
      {
        token: async () => 'old',
        renew: async (refused) => {
          asked.push(refused)
          return 'new'
        },
      },
    )
  await expect(client('UNAUTHORIZED').documents.get('x')).rejects.toMatchObject({ status: 401 })
  expect([seen, asked]).toEqual([['Bearer old', 'Bearer new'], ['old']])
  await expect(client('SHARED_LINK_PASSWORD_REQUIRED').documents.get('x')).rejects.toMatchObject({ code: 'SHARED_LINK_PASSWORD_REQUIRED' })
  await expect(client('UNAUTHORIZED').auth.login('ada', 'wrong')).rejects.toMatchObject({ status: 401 })
  expect(asked).toEqual(['old'])
})

test('a path of another origin throws before anything is sent', async () => {
  const { client, bodies } = clientOf(answer)
  for (const path of ['//elsewhere.example/api', 'https://elsewhere.example/api', '/\\elsewhere.example/api'])
    await expect(client.send('GET', path)).rejects.toThrow('is not a path of')
  expect(bodies).toEqual([])
})
