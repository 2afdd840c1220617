/** Keeps the connections of requests open that take long: proxies close those on which nothing is sent for 30 or 60 seconds. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { H3Event } from 'h3'
import { jsonChunks, jsonType, StreamedAnswer } from '../../http/json/stream.ts'
import type { Route } from '../../http/route.ts'
import type { Log } from '../../log/log.ts'
import { redactPath, requestId } from './request-log.ts'

const spaceIntervalMs = 5000

/**
 * Returns what `work` returns. On a route with `isLong`, returns an answer that begins with spaces if it takes longer than five seconds. An error after
 * that is logged, and closes the connection early: the status has been sent.
 */
export async function keepOpen(work: Promise<unknown>, event: H3Event, { shape }: Route, log: Log): Promise<unknown> {
  const { actor, isLocal } = event.context
  // The answer to a token without `read` has no content.
  if (!shape.isLong || isLocal || actor?.scopes?.includes('read') === false || (await isDoneInTime(work))) return work
  work.catch((error: Error) =>
    log.error({ err: error, request_id: requestId(event), method: event.req.method, path: redactPath(event) }, 'request failed'),
  )
  return new StreamedAnswer(spacesUntil(work), { 'content-type': jsonType })
}

/** Waits for the work for one interval. Rejects if the work does. */
const isDoneInTime = (work: Promise<unknown>): Promise<boolean> =>
  Promise.race([work.then(() => true), sleep(spaceIntervalMs, false, { ref: false })])

async function* spacesUntil(work: Promise<unknown>): AsyncGenerator<string> {
  do yield ' '
  while (!(await isDoneInTime(work)))
  yield* jsonChunks((await work) as object)
}
