/** What a server tells of itself, and your settings on it. */
import type { z } from 'zod'
import type { HealthAnswer } from '../auth/oidc-routes.ts'
import type { OcrAnswer, SystemAnswer } from '../metrics/routes.ts'
import type { Ready } from '../server/health.ts'
import type { changes, SettingsAnswer } from '../settings/routes.ts'
import { ClientError, type OpenConnection, pathOf } from './connection.ts'

export type Settings = z.infer<typeof SettingsAnswer>

/** Your settings. */
export const settings = ({ call }: OpenConnection) => ({
  get: (): Promise<Settings> => call('GET', pathOf('settings')),
  update: (fields: z.input<ReturnType<typeof changes>>): Promise<Settings> => call('PUT', pathOf('settings'), fields),
})

/** How busy it is, and how OCR goes. */
export const metrics = ({ call, fetch }: OpenConnection) => ({
  system: (): Promise<z.infer<typeof SystemAnswer>> => call('GET', pathOf('metrics', 'system')),
  ocr: (): Promise<z.infer<typeof OcrAnswer>> => call('GET', pathOf('metrics', 'ocr')),
  /** All there is, in the text format of Prometheus. */
  prometheus: async (): Promise<string> => (await fetch('GET', '/metrics')).text(),
})

/** Whether it runs and can serve; anybody may ask. */
export const health = ({ call, fetch, sendOnce }: OpenConnection) => ({
  /** Whether people can sign in by OpenID Connect. */
  oidc: (): Promise<z.infer<typeof HealthAnswer>> => call('GET', pathOf('health', 'auth', 'oidc')),
  check: (): Promise<{ status: 'ok' }> => call('GET', pathOf('health')),
  /** The same as text, for probes. */
  probe: async (): Promise<string> => (await fetch('GET', '/healthz')).text(),
  /** What works and what does not; also of a server that cannot serve (503). */
  ready: async (): Promise<z.infer<typeof Ready>> => {
    const response = await sendOnce('GET', '/readyz')
    const body = (await response.json().catch(() => null)) as z.infer<typeof Ready> | null
    if (!body?.checks) throw new ClientError(response.status, { code: 'SERVICE_UNAVAILABLE', message: 'no dms answers' })
    return body
  },
})

/** The API's description of itself. */
export const openapi = ({ call, fetch }: OpenConnection) => ({
  get: (): Promise<Record<string, unknown>> => call('GET', pathOf('openapi.json')),
  /** The same as a page (HTML). */
  page: async (): Promise<string> => (await fetch('GET', pathOf('docs'))).text(),
})
