/** --print-curl: a client that says its requests as lines of curl, as far as they can be known without an answer, and sends nothing. */
import { type Body, type Client, clientOver } from '../client/client.ts'
import { type Form, type Listed, type OpenConnection, withQuery } from '../client/connection.ts'
import { Failure } from './exit.ts'
import type { There } from './there.ts'

/** The command ends here, and well. */
export class Printed extends Failure {
  constructor() {
    super('OK', 'the request was printed and not sent')
  }
}

/** Makes it; `write` gets the lines. What needs the answer to go on ends with the first one. */
export function curlClient({ url, caFile }: Pick<There, 'url' | 'caFile'>, write: (line: string) => void): Client {
  const printed = new Set<string>()
  const print = (method: string, path: string, headers: Readonly<Record<string, string>>, body: readonly string[]): never => {
    const words = [
      'curl -fsS',
      ...(method === 'GET' ? [] : [`-X ${method}`]),
      ...(caFile === null ? [] : [`--cacert ${quoted(caFile)}`]),
      // A shell puts the token in; it is not here.
      ...(isOpen.test(path) ? [] : ['-H "Authorization: Bearer $DMS_TOKEN"']),
      ...Object.entries(headers).map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`),
      ...body,
      quoted(new URL(path, url).href),
    ]
    const line = `${words.join(' ')}\n`
    if (!printed.has(line)) write(line)
    printed.add(line)
    throw new Printed()
  }
  const sent = async (method: string, path: string, json?: unknown, headers: Readonly<Record<string, string>> = {}): Promise<never> =>
    json === undefined
      ? print(method, path, headers, [])
      : print(method, path, { 'Content-Type': 'application/json', ...headers }, [`-d ${quoted(JSON.stringify(json, withoutSecrets))}`])
  function each<T>(path: string, query: Parameters<OpenConnection['each']>[1]): Listed<T> {
    async function* entries(): AsyncGenerator<T> {
      yield await sent('GET', withQuery(path, { per_page: 100, ...query, page: 1 }))
    }
    return Object.assign(entries(), { total: () => null })
  }
  const upload = async (path: string, { fields, field, files }: Form, key?: string): Promise<never> => {
    const texts = Object.entries(fields).flatMap(([name, value]) =>
      value === undefined ? [] : [`--form-string ${quoted(`${name}=${value}`)}`],
    )
    const parts = files.map(
      ({ filename, path: place }) => `-F ${quoted(`${field}=@${formName(place ?? '-')};filename=${formName(filename)}`)}`,
    )
    return print('POST', path, key ? { 'Idempotency-Key': key } : {}, [...texts, ...parts])
  }
  const raw = async (method: string, path: string, body: Body | null, headers: Readonly<Record<string, string>> = {}): Promise<never> =>
    print(method, path, headers, body ? [`--data-binary ${quoted(`@${body.path ?? '-'}`)}`] : [])
  return clientOver({ send: sent, fetch: sent, call: sent, each, once: sent, upload, raw })
}

/** Where no token is asked for. */
const isOpen = /^\/(healthz|readyz|api\/(v1\/)?(auth\/(login|register)|health|public\/|openapi\.json|docs))/

/** One word of a shell, whatever is in it. */
const quoted = (text: string): string => (/^[\w./:@=+,-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`)

/** A name within -F, where commas and semicolons end it. */
const formName = (name: string): string => (/[;,"\\]/.test(name) ? `"${name.replace(/["\\]/g, '\\$&')}"` : name)

const withoutSecrets = (key: string, value: unknown): unknown =>
  /password|secret|token/i.test(key) && typeof value === 'string' ? '******' : value
