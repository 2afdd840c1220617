/** Selection of the server that a command works on. */
import { usage } from '../runtime/exit.ts'
import { type Context, type Contexts, findContext, localContext, parseServerUrl } from './contexts.ts'

/** Server given by flags and variables. */
export interface RequestedTarget {
  /** --local, or the context "local" */
  readonly isLocal: boolean
  /** --context, DMS_CONTEXT */
  readonly context: string | null
  /** --url, DMS_URL */
  readonly url: string | null
  /** --ca-file, DMS_CA_FILE */
  readonly caFile: string | null
  /** --insecure-http, DMS_INSECURE_HTTP */
  readonly isInsecureAllowed: boolean
}

/** A server, or this machine, whose `url` is null. */
export type Target = RemoteTarget | typeof localTarget

export interface RemoteTarget {
  /** context name; the URL if no context has it */
  readonly name: string
  /** scheme, host and port */
  readonly url: string
  readonly context: Context | null
  /** given by --url or DMS_URL; DMS_TOKEN applies then */
  readonly isByUrl: boolean
  readonly caFile: string | null
}

const localTarget = { name: localContext, url: null, context: null, isByUrl: false, caFile: null } as const

/** Selects the server. Throws Failure NOT_FOUND for an unknown context, USAGE for an invalid URL. */
export function resolveTarget(requested: RequestedTarget, contexts: Contexts): Target {
  const { isLocal, url, caFile, isInsecureAllowed } = requested
  if (isLocal) return localTarget
  if (url !== null) {
    const [name, context] = findContextByUrl(url, contexts)
    const base = parseServerUrl(url, { isInsecureAllowed: isInsecureAllowed || context?.insecure_http === true })
    return { name: name ?? base, url: base, context: context ?? null, isByUrl: true, caFile: caFile ?? context?.ca_file ?? null }
  }
  const name = requested.context ?? contexts.current
  if (name === localContext) return localTarget
  const context = findContext(contexts, name)
  return { name, url: context.url, context, isByUrl: false, caFile: caFile ?? context.ca_file ?? null }
}

/** Finds a context by URL, preferably the current one. */
function findContextByUrl(url: string, { current, byName }: Contexts): [string, Context] | [] {
  const origin = URL.parse(url)?.origin
  const matching = [...byName].filter(([, context]) => context.url === origin)
  return matching.find(([name]) => name === current) ?? matching[0] ?? []
}

/** Rejects a remote server for a command that runs on the server only. Throws Failure USAGE. */
export function rejectRemoteTarget(command: string, { isLocal, url, context }: RequestedTarget): void {
  const remote = url ?? context
  if (!isLocal && remote !== null)
    throw usage(`"dms ${command}" runs on the server only, not against ${remote}`, 'pass --local, or unset DMS_URL and DMS_CONTEXT')
}

/** Throws Failure USAGE for the operator, who has no user account. `data` names the data of the command. */
export function requireUser({ options, target }: { options: { as: string | null }; target: Pick<Target, 'url'> }, data: string): void {
  if (target.url === null && options.as === null) throw usage(`the operator at the shell has no ${data}`, 'pass --as USER')
}

interface LocalFlags {
  readonly as: string | null
  readonly config: string | undefined
  readonly settings: Readonly<Record<string, unknown>>
}

/** Rejects flags that apply to this machine only. Throws Failure USAGE. */
export function rejectLocalFlags({ as, config, settings }: LocalFlags, url: string): void {
  const flag = as !== null ? `--as ${as}` : config !== undefined ? '--config' : settings.data_dir !== undefined ? '--data-dir' : null
  if (flag !== null) throw usage(`${flag} applies to this machine only, not to ${url}`, 'pass --local')
}
