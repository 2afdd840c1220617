/** Health, metrics and description of a server, and the user's settings. */
import type { z } from 'zod'
import type { HealthAnswer } from '../auth/oidc-routes.ts'
import type { OcrAnswer, SystemAnswer } from '../metrics/routes.ts'
import type { Ready } from '../server/health.ts'
import type { changes, SettingsAnswer } from '../settings/routes.ts'
import { ClientError, type OpenConnection, pathOf } from './http/connection.ts'

export type Settings = z.infer<typeof SettingsAnswer>

/** Settings of the user. */
export const settings = ({ call }: OpenConnection) => ({
  get: (): Promise<Settings> => call('GET', pathOf('settings')),
  update: (fields: z.input<ReturnType<typeof changes>>): Promise<Settings> => call('PUT', pathOf('settings'), fields),
})

/** Metrics of host and OCR. */
export const metrics = ({ call, fetch }: OpenConnection) => ({
  system: (): Promise<z.infer<typeof SystemAnswer>> => call('GET', pathOf('metrics', 'system')),
  ocr: (): Promise<z.infer<typeof OcrAnswer>> => call('GET', pathOf('metrics', 'ocr')),
  /** Returns all metrics in the text format of Prometheus. */
  prometheus: async (): Promise<string> => (await fetch('GET', '/metrics')).text(),
})

/** Health checks, without authentication. */
export const health = ({ call, fetch, sendOnce }: OpenConnection) => ({
  /** Checks the OpenID Connect provider. */
  oidc: (): Promise<z.infer<typeof HealthAnswer>> => call('GET', pathOf('health', 'auth', 'oidc')),
  check: (): Promise<{ status: 'ok' }> => call('GET', pathOf('health')),
  /** Returns the time of the server, in whole seconds. Without HTTP it is the time of this machine. */
  time: async (): Promise<Date> => {
    const response = await fetch('GET', pathOf('health'))
    await response.body?.cancel()
    const date = response.headers.get('date')
    return date === null ? new Date() : new Date(date)
  },
  /** Returns the liveness probe as text. */
  probe: async (): Promise<string> => (await fetch('GET', '/healthz')).text(),
  /** Returns the readiness checks, even of a server that is not ready (503). */
  ready: async (): Promise<z.infer<typeof Ready>> => {
    const response = await sendOnce('GET', '/readyz')
    const body = (await response.json().catch(() => null)) as z.infer<typeof Ready> | null
    if (!body?.checks) throw new ClientError(response.status, { code: 'SERVICE_UNAVAILABLE', message: 'no dms answers' })
    return body
  },
})

/** OpenAPI description. */
export const openapi = ({ call, fetch }: OpenConnection) => ({
  get: (): Promise<Record<string, unknown>> => call('GET', pathOf('openapi.json')),
  /** Returns the API reference as an HTML page. */
  page: async (): Promise<string> => (await fetch('GET', pathOf('docs'))).text(),
})
