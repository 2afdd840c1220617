/** Opens connections to sources and checks the rights of their owners. */

import { sql } from 'kysely'
import { type Actor, isAdmin } from '../actor.ts'
import type { App } from '../app.ts'
import type { Db } from '../db/pool.ts'
import type { Role, Row } from '../db/schema.ts'
import { AppError, invalid } from '../errors.ts'
import { type SourceConnection, SourceFailure } from '../ports/source-type.ts'
import { decryptCredentials } from './credentials.ts'
import { sourceTypes } from './registry.ts'

export type Type = Row<'sources'>['type']

export interface SourceTarget {
  type: Type
  url: string
  username?: string | null | undefined
  password?: string | null | undefined
  recursive: boolean
}

/** A source with the rights of its owner. */
export type OwnedSource = Row<'sources'> & {
  owner_role: Role
  is_owner_disabled: boolean
  /** an admin or the operator gave the folder to its owner */
  is_granted: boolean
}

/** Returns a source with its owner's rights; undefined for a deleted source. */
export const findWithOwner = (db: Db, id: string): Promise<OwnedSource | undefined> =>
  db
    .selectFrom('sources')
    .innerJoin('users', 'users.id', 'sources.owner_id')
    .leftJoin('users as grantor', 'grantor.id', 'sources.granted_by')
    .selectAll('sources')
    .select(['users.role as owner_role', 'users.disabled as is_owner_disabled'])
    .select(
      sql<boolean>`sources.is_granted_by_operator or coalesce(grantor.role = 'admin' and not grantor.disabled, false)`.as('is_granted'),
    )
    .where('sources.id', '=', id)
    .executeTakeFirst()

/** Throws CONFLICT for a disabled source. */
export function assertEnabled(source: Pick<Row<'sources'>, 'status'> | undefined): void {
  if (source?.status === 'disabled') throw new AppError('CONFLICT', { status: 'disabled' }, 'The source is disabled.')
}

/** Throws SourceFailure if the owner may no longer read the source. */
export function assertOwnerRights(source: OwnedSource): void {
  if (source.is_owner_disabled) throw new SourceFailure('SOURCE_OWNER_DISABLED')
  if (source.type === 'local_folder' && source.owner_role !== 'admin' && !source.is_granted)
    throw new SourceFailure('SOURCE_OWNER_FORBIDDEN')
}

/** Opens a source with its stored credentials. Private networks depend on the owner's role. Throws SourceFailure. */
export async function openSource(app: App, source: OwnedSource, concurrency: number): Promise<SourceConnection> {
  assertOwnerRights(source)
  const credentials = await decryptCredentials(app, source.id, source.credentials)
  return openAddress(app, { ...source, ...credentials }, source.owner_role, concurrency)
}

/** Opens an address with the rights of a role. Throws SourceFailure. */
export async function openAddress(
  app: App,
  { type, url, username = null, password = null, recursive }: SourceTarget,
  role: Role,
  concurrency: number,
): Promise<SourceConnection> {
  const { timeout, min_rate, max_file_size, allow_private_networks, local_roots, ca_file } = app.config.sources
  return (await sourceTypes[type]()).open(
    { url, username, password, recursive },
    {
      concurrency,
      timeoutMs: timeout,
      minBytesPerSecond: min_rate,
      maxFileBytes: max_file_size,
      allowPrivateNetworks: role === 'admin' || allow_private_networks,
      localRoots: local_roots,
      caFile: ca_file,
    },
  )
}

/** Throws FORBIDDEN if only admins may create sources of this type. */
export function assertTypeAllowed(actor: Actor, type: Type): void {
  if (type === 'local_folder' && !isAdmin(actor)) throw new AppError('FORBIDDEN', {}, 'Only admins may use folders of the server.')
}

/** Validates an address without connecting. Throws VALIDATION_ERROR. */
export async function validateAddress(app: App, address: SourceTarget, role: Role): Promise<void> {
  try {
    void (await openAddress(app, address, role, 1)).close()
  } catch (error) {
    if (error instanceof SourceFailure) throw invalid('url', error.message)
    throw error
  }
}

/** Returns the origin of a URL; '' for a folder. */
export function originOf(url: string): string {
  return URL.canParse(url) ? new URL(url).origin : ''
}
