/** A proxy that delays requests, answers in place of the server, or has another clock. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { onTestFinished } from 'vitest'

/** Starts a proxy of `server` and returns its URL. `intercept` returns a status to answer instead of the server. The clock of answers is `aheadMs` ahead. */
export async function startProxy(
  server: string,
  intercept: (path: string, body: Buffer) => Promise<number | undefined>,
  { aheadMs = 0 } = {},
): Promise<string> {
  const proxy = createServer(async (request, response) => {
    const { url: path = '', method = 'GET', headers } = request
    const bytes = await buffer(request).catch(() => null)
    // The client gave up.
    if (!bytes) return
    const status = await intercept(path, bytes)
    if (status !== undefined) return void response.writeHead(status).end()
    const { authorization = '', 'content-type': type = 'application/json' } = headers
    const body = method === 'GET' ? {} : { body: bytes }
    const answer = await fetch(new URL(path, server), { method, headers: { authorization, 'content-type': type }, ...body })
    const { 'transfer-encoding': _, ...others } = Object.fromEntries(answer.headers)
    const date = new Date(Date.now() + aheadMs).toUTCString()
    response.writeHead(answer.status, { ...others, date }).end(Buffer.from(await answer.arrayBuffer()))
  }).listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  onTestFinished(() => void proxy.close())
  return `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`
}
