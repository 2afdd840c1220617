/** Parser of `dms api`: arguments become a path, headers and a body. */
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { Readable } from 'node:stream'
import type { Body } from '../../client/client.ts'
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

/** Parses the call. GET, HEAD and DELETE put fields into the query, other methods into a JSON body. Throws Failure USAGE. */
export async function parseApiCall(
  verb: string,
  place: string,
  { field = [], typedField = [], input, httpHeader = [] }: ApiFlags,
): Promise<ApiCall> {
  const method = verb.toUpperCase()
  if (!/^[A-Z]{3,10}$/.test(method)) throw usage(`"${verb}" is not a method such as GET`)
  const path = place.startsWith('/') ? place : `/${place}`
  if (/^\/[/\\]/.test(path) || /^\/?\w+:/.test(place) || /\s/.test(path)) throw usage(`"${place}" is not a path such as /api/documents`)
  const fields: Record<string, unknown> = Object.fromEntries([...field.map(textOf), ...typedField.map(jsonOf)])
  const hasFields = Object.keys(fields).length > 0
  if (hasFields && input !== undefined) throw usage('-f, -F and --input exclude each other: the body comes from one place')
  const headers = Object.fromEntries(httpHeader.map(headerOf))
  const isAsking = ['GET', 'HEAD', 'DELETE'].includes(method)
  if (input !== undefined) {
    const body = await bodyOf(input)
    return { method, path, headers: { 'content-type': 'application/json', ...headers }, json: undefined, body }
  }
  return {
    method,
    path: isAsking ? withFields(path, fields) : path,
    headers,
    json: hasFields && !isAsking ? fields : undefined,
    body: null,
  }
}

function withFields(path: string, fields: Readonly<Record<string, unknown>>): string {
  const query = new URLSearchParams(
    Object.entries(fields).map(([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)]),
  ).toString()
  return query === '' ? path : `${path}${path.includes('?') ? '&' : '?'}${query}`
}

function pair(flag: string, given: string): [string, string] {
  const at = given.indexOf('=')
  if (at < 1) throw usage(`${flag} ${given}: name=value`)
  return [given.slice(0, at), given.slice(at + 1)]
}

const textOf = (given: string): [string, unknown] => pair('-f', given)

function jsonOf(given: string): [string, unknown] {
  const [name, value] = pair('-F', given)
  try {
    return [name, JSON.parse(value)]
  } catch {
    throw usage(`-F ${given}: the value is not JSON`, 'pass a text with -f')
  }
}

function headerOf(given: string): [string, string] {
  const [, name, value] = /^([\w-]+):\s*(.*)$/.exec(given) ?? []
  if (name === undefined || value === undefined) throw usage(`-H ${given}: name: value`)
  if (name.toLowerCase() === 'authorization')
    throw usage('a token on the command line can be read by everybody on this machine', 'dms login, DMS_TOKEN or DMS_TOKEN_FILE')
  return [name.toLowerCase(), value]
}

async function bodyOf(input: string): Promise<Body> {
  if (input === '-') return { open: () => Readable.toWeb(process.stdin) as ReadableStream, size: null, path: '-' }
  const found = await stat(input).catch((error: Error) => {
    throw usage(error.message)
  })
  if (!found.isFile()) throw usage(`${input} is not a file`)
  return { open: () => Readable.toWeb(createReadStream(input)) as ReadableStream, size: found.size, path: input }
}
