/** Clients of a server elsewhere: with a session that renews itself, or of a stranger. */
import { readFile } from 'node:fs/promises'
import { type Client, type RemoteOptions, remoteClient } from '../../client/remote.ts'
import { escapeControls } from '../../log/escape.ts'
import { exitOf, Failure } from '../runtime/exit.ts'
import type { GlobalOptions } from '../runtime/options.ts'
import type { Env } from '../runtime/user-folders.ts'
import { openSession, type Session } from './session.ts'
import type { Target } from './target.ts'

export interface ConnectOptions {
  readonly env: Env
  readonly options: Pick<GlobalOptions, 'canPrompt' | 'verbose'>
  /** somebody watches standard error */
  readonly isTerminal: boolean
  readonly pause: RemoteOptions['pause']
  readonly note: (text: string) => void
  readonly warn: (text: string) => void
}

/** A server with an address. */
export type RemoteTarget = Target & { readonly url: string }

export interface RemoteClient extends Client {
  close(): Promise<void>
}

/** A client that signs in by itself where its context knows how. Throws Failure USAGE, CONFIG. */
export async function openRemoteClient(target: RemoteTarget, way: ConnectOptions): Promise<RemoteClient & { readonly session: Session }> {
  const closers: (() => Promise<void>)[] = []
  let stranger: Promise<RemoteClient> | undefined
  const session = openSession(target, {
    ...way,
    openAnonymousClient: () => {
      // A server that is not reached is tried again by the request that wants the token.
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

/** A client without a token, or with this one. */
export const openAnonymousClient = (target: RemoteTarget, way: ConnectOptions, token: string | null = null): Promise<RemoteClient> =>
  connect(target, way, { token: async () => token }, async () => {})

/** The certificates that --ca-file or the context names, as PEM. Throws Failure CONFIG. */
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

/** A connection that failed, and to what; every other error as it is. */
function describeConnectError({ name, url, context }: RemoteTarget, error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof Failure || exitOf(error) !== 'UNAVAILABLE') return error
  const reason = error.message || (error instanceof AggregateError && error.errors[0]?.message) || error.name
  const where = context === null ? `--url ${url}` : `--context ${name}`
  // Whether it may be tried again is told by the code of the cause.
  return Object.assign(new Failure('UNAVAILABLE', `${url} cannot be reached: ${reason}`, { fix: `dms ${where} doctor` }), { cause: error })
}

/** Signing in and asking for something in a body change nothing that belongs to anybody. */
const isChange = ({ method, url }: Request): boolean =>
  !['GET', 'HEAD', 'OPTIONS'].includes(method) && !/^\/api\/(v1\/)?(auth\/(login|refresh)|search\b)/.test(new URL(url).pathname)

/** A request as it may be shown: what opens a door is left out. */
function formatRequest({ method, url }: Request): string {
  const shown = url
    .replace(/(\/public\/shared\/)[^/?]+/, '$1…')
    .replace(/([?&][^=&]*(?:token|password|secret|code|state)[^=&]*=)[^&]*/gi, '$1…')
  return `${method} ${escapeControls(shown)}`
}
