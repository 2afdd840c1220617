/** Saved servers by name. Tokens are in credentials.json. */
import { dms } from '../../log/fix.ts'
import { Failure, usage } from '../runtime/exit.ts'

export interface Context {
  /** scheme, host and port */
  readonly url: string
  readonly username?: string
  /** sources of the password for unattended sign-in: a file, or a command that prints it */
  readonly password_file?: string
  readonly password_command?: string
  /** CA certificates (PEM) instead of those of the system */
  readonly ca_file?: string
  /** allows http://, which others on the network can read */
  readonly insecure_http?: boolean
}

export interface Contexts {
  /** default context */
  readonly current: string
  readonly byName: ReadonlyMap<string, Context>
}

/** Name of the built-in context: this machine. */
export const localContext = 'local'

/** Returns the saved context of that name. Throws Failure NOT_FOUND, USAGE for the built-in one. */
export function findContext({ byName }: Contexts, name: string): Context {
  if (name === localContext) throw usage('"local" is this machine, not a saved server', ['name a saved server: ', dms`context list`])
  const context = byName.get(name)
  if (!context)
    throw new Failure('NOT_FOUND', `no context "${name}"`, { fix: [dms`context list`, ', or: ', dms`login URL --name ${name}`] })
  return context
}

/** Validates the name of a new context. Throws Failure USAGE. */
export function parseContextName(name: string): string {
  if (name === localContext) throw usage('the name "local" is reserved for this machine')
  if (!/^[A-Za-z0-9][\w.-]{0,63}$/.test(name)) throw usage(`context name "${name}": only letters, digits, "-", "_" and ".", at most 64`)
  return name
}

/**
 * Returns scheme, host and port of a URL. Throws Failure USAGE for an invalid URL. Also throws it for http:// to another machine without
 * `isInsecureAllowed`: anybody on the network could read tokens and passwords.
 */
export function parseServerUrl(text: string, { isInsecureAllowed }: { readonly isInsecureAllowed: boolean }): string {
  const url = URL.parse(text)
  if (!url || !/^https?:$/.test(url.protocol)) throw usage(`"${text}" is not the URL of a server, such as https://dms.example.org`)
  if (url.username || url.password)
    throw usage('the URL of a server must not contain a user name or password', 'pass --username to dms login')
  if (url.pathname !== '/' || url.search || url.hash) throw usage(`"${text}": the URL of a server has no path, query or fragment`)
  if (url.protocol === 'http:' && !isLoopback(url.hostname) && !isInsecureAllowed)
    throw usage(
      `${url.origin}: http:// sends passwords and tokens unencrypted`,
      'use https://, or pass --insecure-http (DMS_INSECURE_HTTP)',
    )
  return url.origin
}

const isLoopback = (host: string): boolean => host === 'localhost' || host.endsWith('.localhost') || /^127\./.test(host) || host === '[::1]'
