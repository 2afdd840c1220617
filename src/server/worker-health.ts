/** Health and metrics of a worker on a separate port, for machines without a server. */
import type { App } from '../app.ts'
import { parseHostPort } from '../config/values.ts'
import { ConfigError } from '../errors.ts'
import { routes as health } from './health.ts'
import { buildServer } from './http/assemble.ts'
import { openRecorder } from './http/request-metrics.ts'
import { listen } from './listen.ts'
import { routes as metrics } from './metrics.ts'

export interface WorkerHealth {
  /** `http://127.0.0.1:8081`. */
  readonly url: string
  close(): Promise<void>
}

/** Serves /healthz, /readyz and /metrics on worker.health_listen; returns null if it is not set. Throws ConfigError for an unusable address. */
export async function openHealth(app: App, isDraining: () => boolean): Promise<WorkerHealth | null> {
  const { health_listen } = app.config.worker
  if (health_listen === '') return null
  const { host, port } = parseHostPort(health_listen)!
  const recorder = openRecorder()
  const server = buildServer(app, { routes: [...health(app, isDraining), ...metrics(app, recorder)], recorder })
  const address = { ...app.config.server, host, port, socket: '', tls_cert: '', tls_key: '' }
  const listening = await listen(server, { ...app.config, server: address }).catch((error: Error) => {
    throw new ConfigError([`worker.health_listen: cannot listen on ${health_listen} (${error.message})`])
  })
  return { url: listening.url, close: () => listening.close(0) }
}
