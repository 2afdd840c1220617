/** Client of the API, over any transport: a remote server or one in this process. */
import { audit } from './audit.ts'
import { auth } from './auth.ts'
import { comments } from './comments.ts'
import { documents, renditions, trash } from './documents.ts'
import { holds } from './holds.ts'
import { type ClientOptions, type Connection, connect, type OpenConnection, type Transport } from './http/connection.ts'
import { labels } from './labels.ts'
import { notifications } from './notifications.ts'
import { ocrQueue } from './ocr-queue.ts'
import { search } from './search.ts'
import { health, metrics, openapi, settings } from './server.ts'
import { publicLinks, sharedLinks } from './shared-links.ts'
import { sources } from './sources.ts'
import { tokens } from './tokens.ts'
import { users } from './users.ts'

export type { Uploaded, UploadOptions } from './documents.ts'
export type { Body, ClientOptions, Connection, Page, Query, Transport } from './http/connection.ts'
export { ClientError, encode } from './http/connection.ts'
export type { Upload } from './http/multipart.ts'
export type { OcrJob, OcrStatus } from './ocr-queue.ts'

const domains = {
  auth,
  users,
  tokens,
  documents,
  trash,
  renditions,
  labels,
  holds,
  search,
  ocrQueue,
  comments,
  sharedLinks,
  publicLinks,
  notifications,
  settings,
  sources,
  metrics,
  health,
  openapi,
  audit,
} as const

type Domains = { readonly [Name in keyof typeof domains]: ReturnType<(typeof domains)[Name]> }

export interface Client extends Connection, Domains {}

/** Creates a client. */
export const createClient = (transport: Transport, options: ClientOptions = {}): Client => clientOver(connect(transport, options))

/** Creates a client over an existing connection. */
export function clientOver(connection: OpenConnection): Client {
  const { send, call, list, raw } = connection
  const methods = Object.fromEntries(Object.entries(domains).map(([name, domain]) => [name, domain(connection)])) as unknown as Domains
  return { send, call, list, raw, ...methods }
}
