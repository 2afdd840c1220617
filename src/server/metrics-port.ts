/** /metrics on a separate port, for Prometheus servers without access to the API. */
import { hash, timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { App } from '../app.ts'
import { parseHostPort } from '../config/values.ts'
import { ConfigError } from '../errors.ts'
import { contentType } from '../metrics/exposition.ts'
import type { Recorder } from './http/request-metrics.ts'
import { openMetricsText } from './metrics.ts'

export interface MetricsPort {
  /** `http://127.0.0.1:9464`. */
  readonly url: string
  close(): void
}

/** Opens metrics.listen, protected by metrics.token if it is set. Throws ConfigError for an unusable address. */
export async function openMetricsPort(app: App, recorder: Recorder): Promise<MetricsPort> {
  const { listen, token } = app.config.metrics
  const text = openMetricsText(app, recorder)
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    if (request.url !== '/metrics') return void response.writeHead(404).end()
    if (!isAllowed(request, token)) return void response.writeHead(401, { 'www-authenticate': 'Bearer' }).end()
    const body = await text()
    response.writeHead(200, { 'content-type': contentType }).end(body)
  }
  const server = createServer((request, response) => {
    answer(request, response).catch((error) => {
      app.log.error({ err: error }, 'metrics request failed')
      response.writeHead(500).end()
    })
  })
  const address = parseHostPort(listen)
  if (!address) throw new ConfigError(['metrics.listen: is not set'])
  const { host, port } = address
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(new ConfigError([`metrics.listen: cannot listen on ${listen} (${error.message})`])))
    server.listen(port, host, resolve)
  })
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${(server.address() as AddressInfo).port}`,
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}

function isAllowed({ headers }: IncomingMessage, token: string): boolean {
  if (token === '') return true
  return timingSafeEqual(digest(headers.authorization ?? ''), digest(`Bearer ${token}`))
}

const digest = (text: string): Buffer => hash('sha256', text, 'buffer')
