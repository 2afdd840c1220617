/** The servers that a person works with, by name: contexts.toml. Names and places only; tokens are in credentials.json. */
import { join } from 'node:path'
import { Failure, usage } from './exit.ts'
import { configFolder, type Env } from './folders.ts'
import { locked, readOwnFile, replaceOwnFile } from './own-file.ts'

export interface Context {
  /** scheme, host and port */
  readonly url: string
  readonly username?: string
  /** where the password can be read again, so that nobody has to be asked: a file, or a command that prints it */
  readonly password_file?: string
  readonly password_command?: string
  /** certificates (PEM) to trust instead of the system's */
  readonly ca_file?: string
  /** http:// may be used, although others on the way can read it */
  readonly insecure_http?: boolean
}

export interface Contexts {
  /** the one in use when nothing else is asked for */
  readonly current: string
  readonly known: ReadonlyMap<string, Context>
}

/** The context that is always there: this machine. */
export const local = 'local'

const pathOf = (env: Env): string => join(configFolder(env), 'contexts.toml')

const fields = {
  url: 'string',
  username: 'string',
  password_file: 'string',
  password_command: 'string',
  ca_file: 'string',
  insecure_http: 'boolean',
} as const satisfies Record<keyof Context, string>

/** Reads them. Throws Failure CONFIG for a file that is not right. */
export async function readContexts(env: Env): Promise<Contexts> {
  const path = pathOf(env)
  const text = await readOwnFile(path)
  if (text === null) return { current: local, known: new Map() }
  const { parse } = await import('smol-toml')
  try {
    return contextsIn(parse(text))
  } catch (error) {
    throw new Failure('CONFIG', `${path}: ${(error as Error).message.split('\n')[0]}`)
  }
}

/** Reads them, changes them and writes them, with no other command in between. */
export async function changeContexts(env: Env, change: (contexts: Contexts) => Contexts | Promise<Contexts>): Promise<void> {
  const path = pathOf(env)
  await locked(path, async () => {
    const { current, known } = await change(await readContexts(env))
    const { stringify } = await import('smol-toml')
    const text = stringify({ ...(current === local ? {} : { current }), contexts: Object.fromEntries(known) })
    await replaceOwnFile(path, `# Written by dms context and dms login; remarks do not stay.\n${text}\n`)
  })
}

/** The context of that name. Throws Failure NOT_FOUND. */
export function contextNamed({ known }: Contexts, name: string): Context {
  const context = known.get(name)
  if (!context)
    throw new Failure('NOT_FOUND', `there is no context "${name}"`, { fix: `dms context list, or: dms login URL --name ${name}` })
  return context
}

/** A name that a new context may have. Throws Failure USAGE. */
export function newName(name: string): string {
  if (name === local) throw usage('"local" is this machine; choose another name')
  if (!/^[A-Za-z0-9][\w.-]{0,63}$/.test(name)) throw usage(`"${name}": a name has letters, digits, "-", "_" and ".", at most 64`)
  return name
}

/**
 * Scheme, host and port of a server's address. Throws Failure USAGE for what is none, and for http:// to another machine unless that is
 * `allowed`: tokens and passwords could be read on the way.
 */
export function serverUrl(text: string, isInsecureAllowed: boolean): string {
  const url = URL.parse(text)
  if (!url || !/^https?:$/.test(url.protocol)) throw usage(`"${text}" is not the URL of a server, such as https://dms.example.org`)
  if (url.username || url.password) throw usage('the URL of a server holds no name and no password', 'pass --username to dms login')
  if (url.pathname !== '/' || url.search || url.hash) throw usage(`"${text}": the URL of a server ends after its name and port`)
  if (url.protocol === 'http:' && !isLoopback(url.hostname) && !isInsecureAllowed)
    throw usage(`${url.origin}: passwords and tokens could be read on the way`, 'use https://, or pass --insecure-http (DMS_INSECURE_HTTP)')
  return url.origin
}

const isLoopback = (host: string): boolean => host === 'localhost' || host.endsWith('.localhost') || /^127\./.test(host) || host === '[::1]'

function contextsIn(file: Record<string, unknown>): Contexts {
  const { current = local, contexts = {}, ...unknown } = file
  const [odd] = Object.keys(unknown)
  if (odd !== undefined) throw new Error(`unknown key ${odd}`)
  if (typeof current !== 'string') throw new Error('current: the name of a context')
  if (!isTable(contexts)) throw new Error('contexts: sections such as [contexts.prod]')
  const known = new Map(Object.entries(contexts).map(([name, entry]) => [name, contextIn(name, entry)] as const))
  if (current !== local && !known.has(current)) throw new Error(`current: there is no [contexts.${current}]`)
  return { current, known }
}

function contextIn(name: string, entry: unknown): Context {
  if (!isTable(entry)) throw new Error(`contexts.${name} is a section`)
  for (const [key, value] of Object.entries(entry)) {
    const kind = fields[key as keyof Context]
    if (kind === undefined) throw new Error(`unknown key contexts.${name}.${key}`)
    if (typeof value !== kind) throw new Error(`contexts.${name}.${key} is a ${kind}`)
  }
  if (entry.url === undefined) throw new Error(`contexts.${name} has no url`)
  return { ...entry, url: serverUrl(String(entry.url), entry.insecure_http === true) } as Context
}

const isTable = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Date)
