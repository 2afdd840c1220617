/** Which server a command works on: this machine, or one elsewhere. */

import { usage } from '../runtime/exit.ts'
import { type Context, type Contexts, findContext, localContext, parseServerUrl } from './contexts.ts'

/** What flags and variables say; the current context is known only to contexts.toml. */
export interface RequestedTarget {
  /** --local, or the context "local" by name */
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

export interface Target {
  /** of the context; the address where none is saved for it */
  readonly name: string
  /** scheme, host and port; null: this machine */
  readonly url: string | null
  readonly context: Context | null
  /** --url or DMS_URL said so: the token of DMS_TOKEN is for it */
  readonly isByUrl: boolean
  readonly caFile: string | null
}

const localTarget: Target = { name: localContext, url: null, context: null, isByUrl: false, caFile: null }

/** Decides. Throws Failure NOT_FOUND for a context that does not exist, USAGE for an address that is none. */
export function resolveTarget(asked: RequestedTarget, contexts: Contexts): Target {
  const { isLocal, url, caFile } = asked
  if (isLocal) return localTarget
  if (url !== null) {
    const [name, context] = findContextByUrl(url, contexts)
    const isAllowed = asked.isInsecureAllowed || context?.insecure_http === true
    const base = parseServerUrl(url, isAllowed)
    return { name: name ?? base, url: base, context: context ?? null, isByUrl: true, caFile: caFile ?? context?.ca_file ?? null }
  }
  const name = asked.context ?? contexts.current
  if (name === localContext) return localTarget
  const context = findContext(contexts, name)
  return { name, url: context.url, context, isByUrl: false, caFile: caFile ?? context.ca_file ?? null }
}

/** The context that has this address; where several have it, the current one before the others. */
function findContextByUrl(url: string, { current, byName }: Contexts): [string, Context] | [] {
  const origin = URL.parse(url)?.origin
  const all = [...byName].filter(([, context]) => context.url === origin)
  return all.find(([name]) => name === current) ?? all[0] ?? []
}

/** For a command that runs on the server only. Throws Failure USAGE where flags or variables name another machine. */
export function rejectRemoteTarget(command: string, { isLocal, url, context }: RequestedTarget): void {
  const named = url ?? context
  if (!isLocal && named !== null)
    throw usage(`"dms ${command}" runs on the server only, not against ${named}`, 'pass --local, or unset DMS_URL and DMS_CONTEXT')
}
