import { expect, test } from 'vitest'
import { createClient } from '../src/client/client.ts'

const busy = (status: number, headers: Record<string, string> = {}) =>
  Response.json({ error: { code: status === 429 ? 'RATE_LIMITED' : 'SERVICE_UNAVAILABLE', message: 'later' } }, { status, headers })

/** A client of a server that gives these answers, one after the other (of the last one as many as it is asked for); what it was sent, and the pauses made. */
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

test('429 and 503 are asked again after the pause that the server names, the file being sent anew', async () => {
  const { client, bodies, pauses } = clientOf(
    () => busy(429, { 'retry-after': '12' }),
    () => busy(503),
    created,
  )
  expect(await client.documents.upload(file)).toMatchObject({ id: 'x', created: true })
  expect(pauses).toEqual([12, 5])
  expect(bodies.map((body) => body.includes('abc'))).toEqual([true, true, true])
})

test('429 is the answer once five minutes were waited in all, at once for a longer pause, and at once for what can be sent only once', async () => {
  const patient = clientOf(() => busy(429, { 'retry-after': '100' }))
  await expect(patient.client.documents.get('x')).rejects.toMatchObject({ status: 429, code: 'RATE_LIMITED' })
  expect(patient.pauses).toEqual([100, 100, 100])
  const long = clientOf(() => busy(429, { 'retry-after': '900' }))
  await expect(long.client.documents.get('x')).rejects.toMatchObject({ status: 429 })
  expect(long.pauses).toEqual([])
  const pipe = clientOf(() => busy(503))
  await expect(pipe.client.documents.upload({ ...file, size: null })).rejects.toMatchObject({ status: 503 })
  expect(pipe.pauses).toEqual([])
})

test('other answers are never asked for again', async () => {
  const { client, bodies, pauses } = clientOf(() => busy(500, { 'retry-after': '1' }))
  await expect(client.documents.get('x')).rejects.toMatchObject({ status: 500 })
  expect([bodies.length, pauses.length]).toEqual([1, 0])
})
