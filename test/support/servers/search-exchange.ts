/** Recorded requests to a real search server and its answers, replayed so that tests run without one. */
import { readFile, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'

interface Exchange {
  method: string
  path: string
  body: unknown
  status: number
  answer: unknown
}

export interface RecordedServer {
  url: string
  /** requests that are not in the recording */
  unknown: string[]
  /** requests in the recording that were never sent */
  unsent(): string[]
}

/** Records requests to the server at `url`, and its answers, in `file` when the test ends. */
export async function record(url: string, file: string): Promise<RecordedServer> {
  const all: Exchange[] = []
  const server = await listen(async ({ method, path, body, text, headers }) => {
    const response = await fetch(`${url}${path}`, {
      method,
      headers: { 'content-type': headers['content-type'] ?? 'application/json', authorization: headers.authorization ?? '' },
      ...(text === '' ? {} : { body: text }),
    })
    const answer: unknown = JSON.parse((await response.text()) || 'null')
    // Only how a task ended matters: how often it has to be asked for is up to luck.
    const isUnderway = /^\/tasks\/\d+$/.test(path) && ['enqueued', 'processing'].includes((answer as { status: string }).status)
    if (!isUnderway) all.push({ method, path, body: body ?? null, status: response.status, answer })
    return { status: response.status, answer }
  })
  onTestFinished(() => writeFile(file, `[\n${all.map((exchange) => JSON.stringify(exchange)).join(',\n')}\n]\n`))
  return { ...server, unknown: [], unsent: () => [] }
}

/**
 * Answers as recorded; equal requests get their answers in order, the last one repeatedly. Refuses requests that were not recorded or lack this
 * authorization. `variable` replaces what differs between runs.
 */
export async function replay(file: string, authorization: string, variable: readonly RegExp[] = []): Promise<RecordedServer> {
  const all = JSON.parse(await readFile(file, 'utf8')) as Exchange[]
  const keyOf = ({ method, path, body }: Pick<Exchange, 'method' | 'path' | 'body'>): string =>
    variable.reduce((key, pattern) => key.replaceAll(pattern, '…'), `${method} ${path} ${JSON.stringify(body)}`)
  const left = Map.groupBy(all, keyOf)
  const asked = new Set<string>()
  const unknown: string[] = []
  const server = await listen(async (request) => {
    const key = keyOf({ ...request, body: request.body ?? null })
    const answers = left.get(key)
    if (!answers || request.headers.authorization !== authorization) {
      unknown.push(key)
      return { status: 501, answer: { message: 'not recorded', code: 'not_recorded', type: 'internal', link: '' } }
    }
    asked.add(key)
    return answers.length > 1 ? answers.shift()! : answers[0]!
  })
  return { ...server, unknown, unsent: () => [...left.keys()].filter((key) => !asked.has(key)) }
}

interface ReceivedRequest {
  method: string
  path: string
  body: unknown
  /** the unparsed body */
  text: string
  headers: IncomingMessage['headers']
}

/** Returns a list for JSON lines. */
function bodyOf(text: string, headers: IncomingMessage['headers']): unknown {
  if (text === '') return undefined
  if (!headers['content-type']?.includes('ndjson')) return JSON.parse(text)
  return text
    .trimEnd()
    .split('\n')
    .map((line): unknown => JSON.parse(line))
}

async function listen(answer: (asked: ReceivedRequest) => Promise<{ status: number; answer: unknown }>): Promise<{ url: string }> {
  const server = createServer(async (request, response) => {
    const pieces: Buffer[] = []
    for await (const piece of request) pieces.push(piece as Buffer)
    const text = Buffer.concat(pieces).toString()
    const { method = '', url: path = '', headers } = request
    const { status, answer: said } = await answer({ method, path, body: bodyOf(text, headers), text, headers })
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(said))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(
    () =>
      new Promise<void>((resolve) => {
        server.closeAllConnections()
        server.close(() => resolve())
      }),
  )
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}
