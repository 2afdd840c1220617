/** Parser of `dms api`: arguments become a path, headers and a body. */
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { Readable } from 'node:stream'
import type { Body } from '../../client/client.ts'
import { parseKeyValues } from '../arguments/flag-values.ts'
import { usage } from '../runtime/exit.ts'

export interface ApiFlags {
  /** -f name=value: text */
  field?: string[]
  /** -F name=value: JSON */
  typedField?: string[]
  input?: string
  httpHeader?: string[]
}

export interface ApiCall {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  /** at most one of `json` and `body` is set */
  readonly json: unknown
  readonly body: Body | null
}

/** Methods of the API and those that HTTP servers answer anyway. Others never reach the routes of a remote server. */
const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']

/** Parses the call. GET, HEAD and DELETE put fields into the query, other methods into a JSON body. Throws Failure USAGE. */
export async function parseApiCall(
  verb: string,
  endpoint: string,
  { field = [], typedField = [], input, httpHeader = [] }: ApiFlags,
): Promise<ApiCall> {
  const method = verb.toUpperCase()
  if (!methods.includes(method)) throw usage(`"${verb}" is not a method: ${methods.join(', ')}`)
  const path = endpoint.startsWith('/') ? endpoint : `/${endpoint}`
  if (/^\/[/\\]/.test(path) || /^\/?\w+:/.test(endpoint) || /\s/.test(path))
    throw usage(`"${endpoint}" is not a path such as /api/documents`)
  const typed = Object.entries(parseKeyValues('-F', typedField)).map(([name, value]) => parseJson(name, value))
  const fields: Record<string, unknown> = { ...parseKeyValues('-f', field), ...Object.fromEntries(typed) }
  const hasFields = Object.keys(fields).length > 0
  if (hasFields && input !== undefined) throw usage('-f and -F exclude --input: a request has one body')
  const headers = Object.fromEntries(httpHeader.map(parseHeader))
  const hasQuery = ['GET', 'HEAD', 'DELETE'].includes(method)
  if (input !== undefined) {
    const body = await bodyOf(input)
    return { method, path, headers: { 'content-type': 'application/json', ...headers }, json: undefined, body }
  }
  return {
    method,
    path: hasQuery ? withFields(path, fields) : path,
    headers,
    json: hasFields && !hasQuery ? fields : undefined,
    body: null,
  }
}

function withFields(path: string, fields: Readonly<Record<string, unknown>>): string {
  const query = new URLSearchParams(
    Object.entries(fields).map(([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)]),
  ).toString()
  return query === '' ? path : `${path}${path.includes('?') ? '&' : '?'}${query}`
}

function parseJson(name: string, value: string): [string, unknown] {
  try {
    return [name, JSON.parse(value)]
  } catch {
    throw usage(`-F ${name}=${value}: the value is not JSON`, `for a text: -f ${name}=…`)
  }
}

function parseHeader(text: string): [string, string] {
  const [, name, value] = /^([\w-]+):\s*(.*)$/.exec(text) ?? []
  if (name === undefined || value === undefined) throw usage(`-H ${text}: not of the form NAME: VALUE`)
  if (name.toLowerCase() === 'authorization')
    throw usage('-H authorization: every user of this machine can read a command line', 'use dms login, DMS_TOKEN or DMS_TOKEN_FILE')
  return [name.toLowerCase(), value]
}

async function bodyOf(input: string): Promise<Body> {
  if (input === '-') return { open: () => Readable.toWeb(process.stdin) as ReadableStream, size: null, path: '-' }
  const stats = await stat(input).catch((error: Error) => {
    throw usage(`--input: ${error.message}`)
  })
  if (!stats.isFile()) throw usage(`--input ${input}: not a file`)
  return { open: () => Readable.toWeb(createReadStream(input)) as ReadableStream, size: stats.size, path: input }
}
