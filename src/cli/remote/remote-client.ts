/** Clients of a remote server: signed in with automatic renewal, or anonymous. */
import { readCertificates } from '../../certificates.ts'
import { type Client, type RemoteOptions, remoteClient } from '../../client/remote.ts'
import { escapeControls } from '../../log/escape.ts'
import { dms } from '../../log/fix.ts'
import { exitOf, Failure } from '../runtime/exit.ts'
import type { GlobalOptions } from '../runtime/options.ts'
import type { Env } from '../runtime/private-file.ts'
import { openSession, type Session } from './session.ts'
import type { RemoteTarget } from './target.ts'

export interface ConnectOptions {
  readonly env: Env
  readonly options: Pick<GlobalOptions, 'canPrompt' | 'verbose'>
  /** standard error is a terminal */
  readonly isTerminal: boolean
  readonly pause: RemoteOptions['pause']
  readonly note: (text: string) => void
  readonly warn: (text: string) => void
}

export interface RemoteClient extends Client {
  close(): Promise<void>
}

/** Opens a client that signs in if its context has a password source. Throws Failure USAGE, CONFIG. */
export async function openRemoteClient(
  target: RemoteTarget,
  connection: ConnectOptions,
): Promise<RemoteClient & { readonly session: Session }> {
  let anonymousClient: Promise<RemoteClient> | undefined
  const session = openSession(target, {
    ...connection,
    openAnonymousClient: () => {
      // The request that needs the token retries the connection.
      const pause: ConnectOptions['pause'] = async (seconds, error) =>
        error === undefined ? connection.pause?.(seconds) : Promise.reject(error)
      anonymousClient ??= openAnonymousClient(target, { ...connection, pause })
      return anonymousClient
    },
  })
  let isAnnounced = connection.options.verbose === 0 && !connection.isTerminal
  const announceTarget = async (): Promise<void> => {
    if (isAnnounced) return
    isAnnounced = true
    const user = (await session.account()) ?? (await client.auth.profile().catch(() => null))
    const address = target.name === target.url ? target.url : `${target.name}  ${target.url}`
    connection.note(`→ ${address}${user ? escapeControls(`  as ${user.username} (${user.role})`) : ''}`)
  }
  const base = await connect(target, connection, session, announceTarget)
  const client: RemoteClient & { session: Session } = {
    ...base,
    session,
    close: async () => void (await Promise.all([base.close(), anonymousClient?.then((opened) => opened.close())])),
  }
  return client
}

/** Opens a client with this token, or without one. */
export const openAnonymousClient = (target: RemoteTarget, connection: ConnectOptions, token: string | null = null): Promise<RemoteClient> =>
  connect(target, connection, { token: async () => token }, async () => {})

/** Loads the CA certificates of --ca-file or the context, which replace the system's, as with curl. Throws Failure CONFIG. */
export function loadCertificates({ caFile }: Pick<RemoteTarget, 'caFile'>): { ca?: string } {
  if (caFile === null) return {}
  try {
    return { ca: readCertificates(caFile) }
  } catch (error) {
    throw new Failure('CONFIG', `cannot read the CA certificates: ${(error as Error).message}`)
  }
}

async function connect(
  target: RemoteTarget,
  { options, pause, note }: ConnectOptions,
  session: Pick<RemoteOptions, 'token' | 'renew'>,
  announceTarget: () => Promise<void>,
): Promise<RemoteClient> {
  const intercept: RemoteOptions['intercept'] = async (request, send) => {
    if (isChange(request)) await announceTarget()
    const start = performance.now()
    const noteResult = (result: unknown) => {
      if (options.verbose < 2) return
      note(`${formatRequest(request)}  ${escapeControls(String(result))}  ${Math.round(performance.now() - start)} ms`)
    }
    try {
      const response = await send()
      noteResult(response.status)
      return response
    } catch (error) {
      const described = describeConnectError(target, error)
      noteResult((described as Error).message)
      throw described
    }
  }
  return remoteClient({ ...session, ...loadCertificates(target), base: target.url, pause, intercept })
}

/** Adds the server to connection errors. Returns other errors unchanged. */
function describeConnectError({ name, url, context }: RemoteTarget, error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof Failure || exitOf(error) !== 'UNAVAILABLE') return error
  const reason = error.message || (error instanceof AggregateError && error.errors[0]?.message) || error.name
  const fix = context === null ? dms`--url ${url} doctor` : dms`--context ${name} doctor`
  // The retry policy reads the code of the cause.
  return Object.assign(new Failure('UNAVAILABLE', `${url} cannot be reached: ${reason}`, { fix }), { cause: error })
}

/** Sign-in and search use POST but change nothing. */
const isChange = ({ method, url }: Request): boolean =>
  !['GET', 'HEAD', 'OPTIONS'].includes(method) && !/^\/api\/(v1\/)?(auth\/(login|refresh)|search\b)/.test(new URL(url).pathname)

/** Formats a request without its secrets. */
function formatRequest({ method, url }: Request): string {
  const masked = url
    .replace(/(\/public\/shared\/)[^/?]+/, '$1…')
    .replace(/([?&][^=&]*(?:token|password|secret|code|state)[^=&]*=)[^&]*/gi, '$1…')
  return `${method} ${escapeControls(masked)}`
}
