/** Checks a remote server, as its clients see it. */
import { isIP } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect } from 'node:tls'
import type { Client } from '../client/client.ts'
import { dms, type Fix } from '../log/fix.ts'
import { readVersion } from '../version.ts'
import { type Check, type CheckResult, fail, ok, SkippedCheck, warn } from './doctor.ts'

/** Remaining validity below which a certificate is reported. */
const minCertificateDays = 14
const requestTimeoutMs = 10_000

/** Returns the checks of a server. `openAnonymous` opens a client without a token; `openClient` one that is signed in. */
export function remoteChecks(url: string, openAnonymous: () => Promise<Pick<Client, 'send'>>, openClient: () => Promise<Client>): Check[] {
  let isDown = false
  const get = async (path: string): Promise<Response> => {
    if (isDown) throw new SkippedCheck('the server is out of reach')
    try {
      const timeout = sleep(requestTimeoutMs, null, { ref: false })
      const response = await Promise.race([openAnonymous().then(({ send }) => send('GET', path)), timeout])
      if (response) return response
      throw new Error(`no answer within ${requestTimeoutMs / 1000} s`)
    } catch (error) {
      isDown = true
      const { cause } = error as { cause?: Error }
      throw new Error(`${url} cannot be reached: ${cause?.message ?? (error as Error).message}`)
    }
  }
  /** Sends a request whose body does not matter. */
  const getHead: Get = async (path) => {
    const response = await get(path)
    await response.body?.cancel()
    return response
  }
  return [
    { id: 'reachable', about: 'connection to the server', run: () => checkReachable(getHead) },
    { id: 'ready', about: 'readiness of the server', run: () => checkReady(get) },
    { id: 'tls', about: 'TLS certificate', run: () => checkCertificate(url) },
    { id: 'version', about: 'versions of server and client', run: () => checkVersion(get) },
    { id: 'clock', about: 'clocks of server and client', run: () => checkClock(getHead) },
    { id: 'metrics', about: 'anonymous access to /metrics', run: () => checkMetrics(getHead, url) },
    {
      id: 'token',
      about: 'sign-in',
      async run() {
        // With --only token this is the first request: for an unreachable server, signing in is no fix.
        await getHead('/healthz')
        return checkToken(openClient, url)
      },
    },
  ]
}

type Get = (path: string) => Promise<Response>

async function checkReachable(getHead: Get): Promise<CheckResult> {
  const started = performance.now()
  const response = await getHead('/healthz')
  const ms = (performance.now() - started).toFixed(0)
  return response.ok ? ok(`answers in ${ms} ms`) : fail(`/healthz answers ${response.status}: is this a dms server?`, 'check the URL')
}

async function checkReady(get: Get): Promise<CheckResult> {
  const { status = 'unknown', checks = {} } = (await (await get('/readyz')).json().catch(() => ({}))) as {
    status?: string
    checks?: Record<string, string>
  }
  if (status === 'ok') return ok('all components are ready')
  const failing = Object.entries(checks).flatMap(([name, state]) => (state === 'ok' ? [] : [name]))
  const message = `${status}${failing.length > 0 ? `: ${failing.join(', ')}` : ''}`
  return (status === 'degraded' ? warn : fail)(message, 'dms doctor, on the server')
}

async function checkCertificate(url: string): Promise<CheckResult> {
  const { protocol, hostname, port } = new URL(url)
  if (protocol !== 'https:')
    return isLoopbackUrl(url) ? ok('not needed on this machine') : fail('passwords and tokens are sent unencrypted', 'serve it over https')
  const host = hostname.replace(/^\[|\]$/g, '')
  const expiry = await new Promise<Date>((resolve, reject) => {
    const socket = connect(
      {
        host,
        port: Number(port) || 443,
        ...(isIP(host) ? {} : { servername: host }),
        timeout: requestTimeoutMs,
        // The check `reachable` reports a certificate that is not trusted.
        rejectUnauthorized: false,
      },
      () => {
        resolve(new Date(socket.getPeerCertificate().valid_to))
        socket.destroy()
      },
    )
    socket.on('error', reject)
    socket.on('timeout', () => socket.destroy(new Error('no answer')))
  })
  const days = Math.floor((expiry.getTime() - Date.now()) / 86_400_000)
  const message = `the certificate expires in ${days} days`
  return days < minCertificateDays ? warn(message, 'renew it') : ok(message)
}

const isLoopbackUrl = (url: string): boolean => ['localhost', '127.0.0.1', '[::1]'].includes(new URL(url).hostname)

async function checkVersion(get: Get): Promise<CheckResult> {
  const openApi = (await (await get('/api/openapi.json')).json()) as { info?: { version?: string } }
  const [server, client] = [openApi.info?.version ?? 'unknown', readVersion()]
  return server === client ? ok(server) : warn(`the server is dms ${server}, this is ${client}`, 'install the same version on both')
}

async function checkClock(getHead: Get): Promise<CheckResult> {
  const date = (await getHead('/healthz')).headers.get('date')
  if (date === null) throw new SkippedCheck('the server sends no Date header')
  const seconds = Math.round(Math.abs(Date.now() - Date.parse(date)) / 1000)
  return seconds > 60 ? warn(`the clocks are ${seconds} s apart`, 'run an NTP client on both') : ok(`${seconds} s apart`)
}

async function checkMetrics(getHead: Get, url: string): Promise<CheckResult> {
  if (isLoopbackUrl(url)) throw new SkippedCheck('this machine may always read them')
  const response = await getHead('/metrics')
  return response.ok
    ? warn('/metrics answers this machine without a token', 'remove this network from server.metrics_allow')
    : ok('not readable from this machine')
}

async function checkToken(openClient: () => Promise<Client>, url: string): Promise<CheckResult> {
  try {
    const { username, role } = await (await openClient()).call<{ username: string; role: string }>('GET', '/api/auth/me')
    return ok(`signed in as ${username} (${role})`)
  } catch (error) {
    const { message, fix = dms`login ${url}` } = error as Error & { fix?: Fix }
    return fail(message, fix)
  }
}
