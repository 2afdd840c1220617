/**
 * --print-curl: a client that prints its requests as shell commands and sends nothing. Requests that depend on another answer use a shell
 * variable.
 */
import { randomUUID } from 'node:crypto'
import { type Body, type Client, clientOver } from '../../client/client.ts'
import { type EntryStream, type Form, type OpenConnection, withQuery } from '../../client/http/connection.ts'
import { shellWord } from '../../log/escape.ts'
import { Failure } from '../runtime/exit.ts'
import type { LookupPrinter, PrintLookup } from './curl-lookup.ts'
import type { RemoteTarget } from './target.ts'

/** Ends the command successfully. */
class RequestPrinted extends Failure {
  constructor() {
    super('OK', 'the request was printed and not sent')
  }
}

/** Creates the client; `write` gets the lines. Every request throws RequestPrinted, because its answer is unknown; `printLookup` does not. */
export function createCurlClient(
  { url, caFile }: Pick<RemoteTarget, 'url' | 'caFile'>,
  write: (line: string) => void,
): Client & LookupPrinter {
  const printed = new Set<string>()
  /** variable names by their stand-ins in requests */
  const variables = new Map<string, string>()
  const quoted = (text: string): string => quotedWith(text, variables)
  const curl = (method: string, path: string, headers: Readonly<Record<string, string>> = {}, body: readonly string[] = []): string =>
    [
      'curl -fsS',
      ...(method === 'GET' ? [] : [`-X ${method}`]),
      ...(caFile === null ? [] : [`--cacert ${quoted(caFile)}`]),
      // The shell expands the variable: the token is not printed.
      ...(isPublicPath.test(path) ? [] : ['-H "Authorization: Bearer $DMS_TOKEN"']),
      ...Object.entries(headers).map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`),
      ...body,
      quoted(new URL(path, url).href),
    ].join(' ')
  const print = (...request: Parameters<typeof curl>): never => {
    const line = `${curl(...request)}\n`
    if (!printed.has(line)) write(line)
    printed.add(line)
    throw new RequestPrinted()
  }
  const sent = async (method: string, path: string, json?: unknown, headers: Readonly<Record<string, string>> = {}): Promise<never> =>
    json === undefined
      ? print(method, path, headers, [])
      : print(method, path, { 'Content-Type': 'application/json', ...headers }, [`-d ${quoted(JSON.stringify(json, withoutSecrets))}`])
  const newVariable = (name: string): { variable: string; standIn: string } => {
    const count = [...variables.values()].filter((other) => other.replace(/\d+$/, '') === name).length
    const variable = count === 0 ? name : `${name}${count + 1}`
    const standIn = randomUUID()
    variables.set(standIn, variable)
    return { variable, standIn }
  }
  const secrets = new Map<string, string>()
  /** Replaces secrets by shell variables, which the user sets. */
  const withoutSecrets = (key: string, value: unknown): unknown => {
    if (!isSecret.test(key) || typeof value !== 'string') return value
    const standIn = secrets.get(value) ?? newVariable(key.replace(/\W/g, '_')).standIn
    secrets.set(value, standIn)
    return standIn
  }
  function list<T>(path: string, query: Parameters<OpenConnection['list']>[1]): EntryStream<T> {
    async function* entries(): AsyncGenerator<T> {
      yield await sent('GET', withQuery(path, { per_page: 100, ...query }))
    }
    return Object.assign(entries(), { total: () => null })
  }
  const upload = async (
    path: string,
    { fields, field, files }: Form,
    { idempotencyKey: key }: { idempotencyKey?: string | undefined } = {},
  ): Promise<never> => {
    const texts = Object.entries(fields).flatMap(([name, value]) =>
      value === undefined ? [] : [`--form-string ${quoted(`${name}=${value}`)}`],
    )
    const parts = files.map(
      ({ filename, path: file }) => `-F ${quoted(`${field}=@${formName(file ?? '-')};filename=${formName(filename)}`)}`,
    )
    return print('POST', path, key ? { 'Idempotency-Key': key } : {}, [...texts, ...parts])
  }
  const raw = async (method: string, path: string, body: Body | null, headers: Readonly<Record<string, string>> = {}): Promise<never> =>
    print(method, path, headers, body ? [`--data-binary ${quoted(`@${body.path ?? '-'}`)}`] : [])
  const lookups = new Map<string, string>()
  const printLookup: PrintLookup = ({ path, filter, name, variable: prefix }) => {
    const argument = name === undefined ? '' : ` --arg name ${quoted(name)}`
    const command = `${curl('GET', path)} | jq -r${argument} ${quoted(filter)}`
    const previous = lookups.get(command)
    if (previous !== undefined) return previous
    const { variable, standIn } = newVariable(prefix)
    write(`${variable}=$(${command})\n`)
    lookups.set(command, standIn)
    return standIn
  }
  return { ...clientOver({ send: sent, fetch: sent, call: sent, list, sendOnce: sent, upload, raw }), printLookup }
}

/** Paths that need no token. */
const isPublicPath = /^\/(healthz|readyz|api\/(v1\/)?(auth\/(login|register)|health|public\/|openapi\.json|docs))/

/** Quotes a word for the shell. `${NAME:?}` stops the shell if a look-up found nothing. */
function quotedWith(text: string, variables: ReadonlyMap<string, string>): string {
  const [standIn, variable] = [...variables].find(([id]) => text.includes(id)) ?? []
  if (standIn === undefined) return shellWord(text)
  const parts = text.split(standIn).map((part) => (part === '' ? '' : quotedWith(part, variables)))
  return parts.join(`"\${${variable}:?}"`)
}

/** Quotes a file name within -F. Commas and semicolons are separators there. */
const formName = (name: string): string => (/[;,"\\]/.test(name) ? `"${name.replace(/["\\]/g, '\\$&')}"` : name)

const isSecret = /password|secret|token/i
