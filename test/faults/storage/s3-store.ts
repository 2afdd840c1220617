/** A bucket of OpenStack Swift as document store of an installation, behind a proxy that misbehaves. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, request as openRequest, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { AwsV4Signer } from 'aws4fetch'
import { hasS3Server, startS3 } from '../../support/servers/s3-server.ts'
import type { Installation } from '../installation.ts'

/**
 * Misbehaviour of S3: `reset` closes the connection without an answer, `fail` answers 503, `lose` does what was requested and closes the connection
 * instead of answering, `slow` answers after 1.5 s, `hang` never answers.
 */
const misbehaviours = ['reset', 'fail', 'lose', 'slow', 'hang'] as const
type Misbehaviour = (typeof misbehaviours)[number]

const region = 'eu-test-1'
const bucket = 'faults'
const prefix = 'archive/'
const slowMs = 1500
/** Share of requests that are not answered as they should be. */
const misbehaviourRate = 0.05

export const needsS3 = (): string | null => (hasS3Server() ? null : 'there is no OpenStack Swift')

/** Starts Swift and the proxy. They stop with the place. */
export async function openS3Store(installation: Installation) {
  const s3 = await startS3()
  installation.atEnd(() => void s3.stop())
  await s3.send('PUT', bucket)
  const proxy = await startProxy(Number(new URL(s3.url).port))
  installation.atEnd(proxy.close)

  const get = async (path: string): Promise<string> => {
    const credentials = { accessKeyId: s3.username, secretAccessKey: s3.password }
    const { url, headers } = await new AwsV4Signer({ method: 'GET', url: s3.url + path, service: 's3', region, ...credentials }).sign()
    const response = await fetch(url, { headers })
    if (!response.ok) throw new Error(`GET ${path}: ${response.status}`)
    return response.text()
  }
  /** Returns the sizes of all objects below a folder by name. */
  const listSizes = async (folder: string): Promise<Map<string, number>> => {
    const sizes = new Map<string, number>()
    for (let after = ''; ; ) {
      const page = await get(`${bucket}?list-type=2&prefix=${encodeURIComponent(prefix + folder)}&start-after=${encodeURIComponent(after)}`)
      const objects = [...page.matchAll(/<Contents>.*?<Key>(.*?)<\/Key>.*?<Size>(\d+)<\/Size>.*?<\/Contents>/gs)]
      for (const [, key = '', size] of objects) sizes.set(key.slice(prefix.length + folder.length), Number(size))
      if (objects.length === 0 || !page.includes('<IsTruncated>true')) return sizes
      after = objects.at(-1)?.[1] ?? ''
    }
  }
  return {
    setMisbehaviour: proxy.setMisbehaviour,
    /** Refuses connections, and breaks off those that are open, as if S3 had been killed. */
    setDown: proxy.setDown,
    /** Returns a random misbehaviour for a twentieth of all requests. At most `maxHangs` hang. */
    drawMisbehaviour(maxHangs: number): Misbehaviour | null {
      if (Math.random() > misbehaviourRate) return null
      const choice = misbehaviours[Math.floor(Math.random() * misbehaviours.length)] ?? null
      return choice === 'hang' && proxy.counts.hang >= maxHangs ? 'lose' : choice
    },
    countMisbehaviour: () => Object.values(proxy.counts).reduce((a, b) => a + b),
    describeMisbehaviour: () =>
      Object.entries(proxy.counts)
        .map(([name, count]) => `${count} ${name}`)
        .join(', '),
    env: (kind: 'disk' | 's3'): Record<string, string> => ({
      DMS_STORAGE_KIND: kind,
      DMS_S3_ENDPOINT: proxy.url,
      DMS_S3_REGION: region,
      DMS_S3_BUCKET: bucket,
      DMS_S3_PREFIX: prefix.slice(0, -1),
      DMS_S3_ACCESS_KEY_ID: s3.username,
      DMS_S3_SECRET_ACCESS_KEY: s3.password,
      DMS_S3_FORCE_PATH_STYLE: 'true',
    }),
    /** Returns the sizes of stored files by address, and what no file needs: data without a pointer, markers of write sessions, unfinished uploads. */
    async list(): Promise<{ sizes: Map<string, number>; abandoned: string[] }> {
      const sizes = await listSizes('files/')
      const data = await listSizes('data/')
      const referenced = new Set<string>()
      for (const address of (await listSizes('large/')).keys()) {
        const id = await get(`${bucket}/${prefix}large/${address}`).catch(() => '')
        referenced.add(id)
        sizes.set(address, data.get(id) ?? -1)
      }
      const unreferenced = [...data.keys()].filter((id) => !referenced.has(id)).map((id) => `data/${id}`)
      const markers = [...(await listSizes('uncommitted/')).keys()].map((id) => `uncommitted/${id}`)
      const unfinished = [...(await get(`${bucket}?uploads`)).matchAll(/<Key>(.*?)<\/Key>/g)].map(([, key]) => `upload of ${key}`)
      return { sizes, abandoned: [...unreferenced, ...markers, ...unfinished] }
    },
  }
}

/** Starts a proxy to a local port. Swift checks signatures with the Host header, which stays. */
async function startProxy(port: number) {
  let next: () => Misbehaviour | null = () => null
  let isDown = false
  const counts = Object.fromEntries(misbehaviours.map((each) => [each, 0])) as Record<Misbehaviour, number>
  const server = createServer((request, response) => {
    const misbehaviour = next()
    if (misbehaviour) counts[misbehaviour]++
    if (misbehaviour === 'reset') request.socket.destroy()
    else if (misbehaviour === 'hang') request.resume()
    else if (misbehaviour === 'fail') {
      request.resume().on('end', () => response.writeHead(503, { 'content-length': 0 }).end())
    } else forward(request, response, port, misbehaviour)
  })
  server.on('connection', (socket) => {
    if (isDown) socket.destroy()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    setDown(value: boolean) {
      isDown = value
      if (isDown) server.closeAllConnections()
    },
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    counts,
    /** Sets a function that decides for each request. */
    setMisbehaviour(decide: () => Misbehaviour | null) {
      next = decide
    },
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
}

function forward(request: IncomingMessage, response: ServerResponse, port: number, misbehaviour: 'lose' | 'slow' | null): void {
  const { method, url, rawHeaders } = request
  let isAnswered = false
  // Swift sends a body after 404 to HEAD, which no request of the same connection must read.
  const onward = openRequest(
    { host: '127.0.0.1', port, agent: false, method, path: url, headers: rawHeaders, setHost: false },
    (answer) => {
      isAnswered = true
      if (misbehaviour === 'lose') return void answer.resume().on('close', () => request.socket.destroy())
      const pass = () => {
        response.writeHead(answer.statusCode ?? 502, answer.rawHeaders)
        if (method === 'HEAD') response.end()
        else answer.pipe(response)
        answer.on('error', () => response.destroy())
      }
      if (misbehaviour === 'slow') setTimeout(pass, slowMs)
      else pass()
    },
  )
  onward.on('error', () => {
    if (!isAnswered) request.socket.destroy()
  })
  response.on('close', () => onward.destroy())
  request.pipe(onward)
}
