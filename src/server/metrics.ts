import type { H3Event } from 'h3'
import { type Actor, isAdmin } from '../actor.ts'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { anyone, type Route } from '../http/route.ts'
import { contentType, render } from '../metrics/exposition.ts'
import { processFamilies } from '../metrics/process.ts'
import { openDatabaseMetrics } from '../metrics/state.ts'
import { isWithin } from './http/client-ip.ts'
import type { Recorder } from './http/request-metrics.ts'

/** Returns a function that renders the metrics of requests, of this process and of the installation. */
export function openMetricsText(app: App, recorder: Recorder): () => Promise<string> {
  const state = openDatabaseMetrics(app)
  return async () => {
    const families = await Promise.all([processFamilies(app.now().getTime()), state()])
    return render([...recorder.families(), ...families.flat()])
  }
}

export function routes(app: App, recorder: Recorder): Route[] {
  const text = openMetricsText(app, recorder)
  return [
    anyone(
      'GET /metrics',
      {
        summary: 'Get metrics in the Prometheus text format; for admins and hosts in server.metrics_allow',
        produces: ['text/plain'],
        errors: ['UNAUTHORIZED', 'FORBIDDEN'],
      },
      async ({ actor, event, ip }) => {
        if (!canRead(app, event, actor, ip)) throw new AppError(actor ? 'FORBIDDEN' : 'UNAUTHORIZED')
        return new Response(await text(), { headers: { 'content-type': contentType } })
      },
    ),
  ]
}

/** Tells if a caller may read metrics. Requests through an undeclared proxy count as external, because all have the address of the proxy. */
function canRead({ config: { server } }: App, { req }: H3Event, actor: Actor | undefined, ip: string): boolean {
  if (actor && isAdmin(actor)) return true
  const isForwarded = ['x-forwarded-for', 'forwarded', 'x-real-ip'].some((header) => req.headers.has(header))
  if (isForwarded && server.trusted_proxies.length === 0) return false
  return isWithin(ip, server.metrics_allow)
}
