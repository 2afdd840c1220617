/** A server elsewhere, as far as a client can see it. */
import { isIP } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect } from 'node:tls'
import type { Client } from '../client/client.ts'
import { readVersion } from '../version.ts'
import { fail, NotHere, type Opinion, ok, type Question, warn } from './doctor.ts'

/** Days before its end that a certificate is worth a line. */
const notice = 14

/** Milliseconds for an answer. */
const patience = 10_000

/** `stranger` is a client without a token; `client` is asked for when a question needs to be signed in. */
export function remote(url: string, stranger: () => Promise<Pick<Client, 'send'>>, client: () => Promise<Client>): Question[] {
  let isDown = false
  const get = async (path: string): Promise<Response> => {
    if (isDown) throw new NotHere('the server is out of reach')
    try {
      const late = sleep(patience, null, { ref: false })
      const response = await Promise.race([stranger().then(({ send }) => send('GET', path)), late])
      if (response) return response
      throw new Error(`no answer within ${patience / 1000} s`)
    } catch (error) {
      isDown = true
      const { cause } = error as { cause?: Error }
      throw new Error(`${url} cannot be reached: ${cause?.message ?? (error as Error).message}`)
    }
  }
  return [
    { id: 'reachable', about: 'whether the server answers', ask: () => reachable(get) },
    { id: 'ready', about: 'whether it can serve', ask: () => ready(get) },
    { id: 'tls', about: 'its certificate', ask: () => tls(url) },
    { id: 'version', about: 'its version and ours', ask: () => version(get) },
    { id: 'clock', about: 'its clock and ours', ask: () => clock(get) },
    { id: 'metrics', about: 'whether strangers read /metrics', ask: () => metrics(get, url) },
    {
      id: 'token',
      about: 'whether we are signed in',
      // Asked on its own it is the first that finds nobody there: signing in would not help.
      async ask() {
        await (await get('/healthz')).body?.cancel()
        return token(client)
      },
    },
  ]
}

type Get = (path: string) => Promise<Response>

async function reachable(get: Get): Promise<Opinion> {
  const started = performance.now()
  const response = await get('/healthz')
  await response.body?.cancel()
  const ms = (performance.now() - started).toFixed(0)
  return response.ok ? ok(`answers in ${ms} ms`) : fail(`/healthz answers ${response.status}: is this a dms?`, 'check the URL')
}

async function ready(get: Get): Promise<Opinion> {
  const { status = 'unknown', checks = {} } = (await (await get('/readyz')).json().catch(() => ({}))) as {
    status?: string
    checks?: Record<string, string>
  }
  const failing = Object.entries(checks)
    .filter(([, state]) => state !== 'ok')
    .map(([name]) => name)
  if (status === 'ok') return ok('all of it')
  const message = `${status}${failing.length > 0 ? `: ${failing.join(', ')}` : ''}`
  return status === 'degraded' ? warn(message, 'dms doctor, on the server') : fail(message, 'dms doctor, on the server')
}

async function tls(url: string): Promise<Opinion> {
  const { protocol, hostname, port } = new URL(url)
  if (protocol !== 'https:')
    return isHere(url) ? ok('none: it is on this machine') : fail('passwords and tokens travel in the clear', 'serve it over https')
  const host = hostname.replace(/^\[|\]$/g, '')
  const until = await new Promise<Date>((resolve, reject) => {
    const socket = connect(
      // Whether it is to be trusted, the first question told.
      { host, port: Number(port) || 443, ...(isIP(host) ? {} : { servername: host }), timeout: patience, rejectUnauthorized: false },
      () => {
        resolve(new Date(socket.getPeerCertificate().valid_to))
        socket.destroy()
      },
    )
    socket.on('error', reject)
    socket.on('timeout', () => socket.destroy(new Error('no answer')))
  })
  const days = Math.floor((until.getTime() - Date.now()) / 86_400_000)
  return days < notice ? warn(`the certificate ends in ${days} days`, 'renew it') : ok(`the certificate is good for ${days} days`)
}

const isHere = (url: string): boolean => ['localhost', '127.0.0.1', '[::1]'].includes(new URL(url).hostname)

async function version(get: Get): Promise<Opinion> {
  const described = (await (await get('/api/openapi.json')).json()) as { info?: { version?: string } }
  const [theirs, ours] = [described.info?.version ?? 'unknown', readVersion()]
  return theirs === ours ? ok(theirs) : warn(`the server is dms ${theirs}, this is ${ours}`, 'install the same version on both')
}

async function clock(get: Get): Promise<Opinion> {
  const response = await get('/healthz')
  await response.body?.cancel()
  const date = response.headers.get('date')
  if (date === null) throw new NotHere('the server does not tell the time')
  const seconds = Math.round(Math.abs(Date.now() - Date.parse(date)) / 1000)
  return seconds > 60 ? warn(`the clocks are ${seconds} s apart`, 'run an NTP client on both') : ok(`${seconds} s apart`)
}

async function metrics(get: Get, url: string): Promise<Opinion> {
  if (isHere(url)) throw new NotHere('this machine may always read them')
  const response = await get('/metrics')
  await response.body?.cancel()
  return response.ok ? warn('/metrics answers without a token from here', 'server.metrics_allow') : ok('not from here')
}

async function token(client: () => Promise<Client>): Promise<Opinion> {
  try {
    const { username, role } = await (await client()).call<{ username: string; role: string }>('GET', '/api/auth/me')
    return ok(`signed in as ${username} (${role})`)
  } catch (error) {
    return fail((error as Error).message, 'dms login')
  }
}
