/** Where a source is, and the way in. */

import { sql } from 'kysely'
import { type Actor, isAdmin } from '../actor.ts'
import type { App } from '../app.ts'
import type { Db } from '../db/pool.ts'
import type { Role, Row } from '../db/schema.ts'
import { AppError, invalid } from '../errors.ts'
import { type SourceConnection, SourceFailure } from '../ports/source-type.ts'
import { types } from './registry.ts'
import { unseal } from './secrets.ts'

export type Type = Row<'sources'>['type']

export interface Address {
  type: Type
  url: string
  username?: string | null | undefined
  password?: string | null | undefined
  recursive: boolean
}

/** A source with what its owner may do. */
export type OwnedSource = Row<'sources'> & {
  owner_role: Role
  is_owner_disabled: boolean
  /** whether the operator, or somebody who is an admin now, gave the folder to its owner */
  is_granted: boolean
}

/** The source as whoever syncs it needs it; undefined where it is gone. */
export const withOwner = (db: Db, id: string): Promise<OwnedSource | undefined> =>
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

/** Throws SourceFailure where the owner may not have the source read now, whoever asks for it: rights end while sources stay. */
export function checkRights(source: OwnedSource): void {
  if (source.is_owner_disabled) throw new SourceFailure('SOURCE_OWNER_DISABLED')
  if (source.type === 'local_folder' && source.owner_role !== 'admin' && !source.is_granted)
    throw new SourceFailure('SOURCE_OWNER_FORBIDDEN')
}

/** Opens a source; what it may reach depends on whose it is. Throws SourceFailure. */
export async function connected(app: App, source: OwnedSource, concurrency: number): Promise<SourceConnection> {
  checkRights(source)
  const credentials = await unseal(app, source.id, source.credentials)
  return open(app, { ...source, ...credentials }, source.owner_role, concurrency)
}

/** The same for an address and a role. Throws SourceFailure. */
export async function open(
  app: App,
  { type, url, username = null, password = null, recursive }: Address,
  role: Role,
  concurrency: number,
): Promise<SourceConnection> {
  const { timeout, min_rate, max_file_size, allow_private_networks, local_roots, ca_file } = app.config.sources
  return (await types[type]()).open(
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

/** Throws FORBIDDEN where only admins may have a source of that type. */
export function checkType(actor: Actor, type: Type): void {
  if (type === 'local_folder' && !isAdmin(actor)) throw new AppError('FORBIDDEN', {}, 'Folders of the server are for admins.')
}

/** Looks at the address as its type does. Throws VALIDATION_ERROR. */
export async function check(app: App, address: Address, role: Role): Promise<void> {
  try {
    void (await open(app, address, role, 1)).close()
  } catch (error) {
    if (error instanceof SourceFailure) throw invalid('url', error.message)
    throw error
  }
}

/** Whose server an address is on; a folder is on ours. */
export function originOf(url: string): string {
  return URL.canParse(url) ? new URL(url).origin : ''
}
