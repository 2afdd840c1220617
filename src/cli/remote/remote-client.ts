/** Clients of a remote server: signed in with automatic renewal, or anonymous. */
import { readFile } from 'node:fs/promises'
import { type Client, type RemoteOptions, remoteClient } from '../../client/remote.ts'
import { escapeControls } from '../../log/escape.ts'
import { exitOf, Failure } from '../runtime/exit.ts'
import type { GlobalOptions } from '../runtime/options.ts'
import type { Env } from '../runtime/private-file.ts'
import { openSession, type Session } from './session.ts'
import type { Target } from './target.ts'

export interface ConnectOptions {
  readonly env: Env
  readonly options: Pick<GlobalOptions, 'canPrompt' | 'verbose'>
  /** standard error is a terminal */
  readonly isTerminal: boolean
  readonly pause: RemoteOptions['pause']
  readonly note: (text: string) => void
  readonly warn: (text: string) => void
}

/** Target with a URL. */
export type RemoteTarget = Target & { readonly url: string }

export interface RemoteClient extends Client {
  close(): Promise<void>
}

/** Opens a client that signs in if its context has a password source. Throws Failure USAGE, CONFIG. */
export async function openRemoteClient(target: RemoteTarget, way: ConnectOptions): Promise<RemoteClient & { readonly session: Session }> {
  const closers: (() => Promise<void>)[] = []
  let stranger: Promise<RemoteClient> | undefined
  const session = openSession(target, {
    ...way,
    openAnonymousClient: () => {
      // The request that needs the token retries the connection.
      const pause: ConnectOptions['pause'] = async (seconds, error) => (error === undefined ? way.pause?.(seconds) : Promise.reject(error))
      stranger ??= openAnonymousClient(target, { ...way, pause })
      return stranger
    },
  })
  closers.push(async () => (await stranger)?.close())
  let isTold = way.options.verbose === 0 && !way.isTerminal
  const tell = async (): Promise<void> => {
    if (isTold) return
    isTold = true
    const holder = (await session.account()) ?? (await client.auth.profile().catch(() => null))
    const address = target.name === target.url ? target.url : `${target.name}  ${target.url}`
    way.note(`→ ${address}${holder ? escapeControls(`  as ${holder.username} (${holder.role})`) : ''}`)
  }
  const base = await connect(target, way, session, tell)
  const client: RemoteClient & { session: Session } = {
    ...base,
    session,
    close: async () => void (await Promise.all([base.close(), ...closers.map((close) => close())])),
  }
  return client
}

/** Opens a client with this token, or without one. */
export const openAnonymousClient = (target: RemoteTarget, way: ConnectOptions, token: string | null = null): Promise<RemoteClient> =>
  connect(target, way, { token: async () => token }, async () => {})

/** Loads the CA certificates of --ca-file or the context (PEM). Throws Failure CONFIG. */
export async function loadCertificates({ caFile }: Pick<Target, 'caFile'>): Promise<{ ca?: string }> {
  if (caFile === null) return {}
  const ca = await readFile(caFile, 'utf8').catch((error: Error) => {
    throw new Failure('CONFIG', `the certificates cannot be read: ${error.message}`)
  })
  if (!ca.includes('-----BEGIN CERTIFICATE-----')) throw new Failure('CONFIG', `${caFile} holds no certificate in PEM`)
  return { ca }
}

async function connect(
  target: RemoteTarget,
  { options, pause, note }: ConnectOptions,
  session: Pick<RemoteOptions, 'token' | 'renew'>,
  tell: () => Promise<void>,
): Promise<RemoteClient> {
  const intercept: RemoteOptions['intercept'] = async (request, send) => {
    if (isChange(request)) await tell()
    const reach = () => send().catch((error) => Promise.reject(describeConnectError(target, error)))
    if (options.verbose < 2) return reach()
    const start = performance.now()
    const ended = (came: unknown) =>
      note(`${formatRequest(request)}  ${escapeControls(String(came))}  ${Math.round(performance.now() - start)} ms`)
    return reach().then(
      (response) => {
        ended(response.status)
        return response
      },
      (error: Error) => {
        ended(error.message)
        throw error
      },
    )
  }
  return remoteClient({ ...session, ...(await loadCertificates(target)), base: target.url, pause, intercept })
}

/** Adds the server to connection errors. Returns other errors unchanged. */
function describeConnectError({ name, url, context }: RemoteTarget, error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof Failure || exitOf(error) !== 'UNAVAILABLE') return error
  const reason = error.message || (error instanceof AggregateError && error.errors[0]?.message) || error.name
  const where = context === null ? `--url ${url}` : `--context ${name}`
  // The retry policy reads the code of the cause.
  return Object.assign(new Failure('UNAVAILABLE', `${url} cannot be reached: ${reason}`, { fix: `dms ${where} doctor` }), { cause: error })
}

/** Sign-in and search use POST but change nothing. */
const isChange = ({ method, url }: Request): boolean =>
  !['GET', 'HEAD', 'OPTIONS'].includes(method) && !/^\/api\/(v1\/)?(auth\/(login|refresh)|search\b)/.test(new URL(url).pathname)

/** Formats a request without its secrets. */
function formatRequest({ method, url }: Request): string {
  const shown = url
    .replace(/(\/public\/shared\/)[^/?]+/, '$1…')
    .replace(/([?&][^=&]*(?:token|password|secret|code|state)[^=&]*=)[^&]*/gi, '$1…')
  return `${method} ${escapeControls(shown)}`
}
