/**
 * Database markers: each names the database that uses a document store. A copy of the database has the store id of the original, so the store marker
 * accepts both. Only one of them may use the store, because each would remove files that the other needs.
 */
import type { Config } from '../config/schema.ts'
import { findDatabaseId } from '../db/database-id.ts'
import type { Db } from '../db/pool.ts'
import { ConfigError } from '../errors.ts'
import { dms } from '../log/fix.ts'
import type { Markers } from '../ports/file-store.ts'
import { emptyIfUnreadable, loadStoreId } from './store-marker.ts'

/** Name of the marker that contains the store id and the identity of the database. */
const databaseMarkerName = '.dms-database'

/** Starts the identity of an embedded database. All of them count as one: an upgrade of PostgreSQL, and the way back, replace the cluster. */
const embeddedPrefix = 'embedded:'

/** The use of a document store by databases with its store id. */
export interface StoreUse {
  /** identity of this database; null if its role may not read it */
  readonly own: string | null
  /** identity of the database that used the store last; null if none is recorded */
  readonly last: string | null
  /** whether the last one is this database */
  readonly isOwn: boolean
  /** Records this database. */
  record(): Promise<void>
}

/** Loads the use of a store. The marker of another store id is ignored: a restore gives the store a new one. */
export async function loadStoreUse(db: Db, markers: Markers, { database }: Pick<Config, 'database'>): Promise<StoreUse> {
  const id = await findDatabaseId(db)
  const own = id !== null && database.url === '' ? `${embeddedPrefix}${id}` : id
  const storeId = await loadStoreId(db)
  const marker = await markers.read(databaseMarkerName).catch(emptyIfUnreadable)
  const [recordedStore, recorded] = marker.split(' ')
  const last = recordedStore === storeId && recorded ? recorded : null
  return {
    own,
    last,
    isOwn: own !== null && last !== null && isSameDatabase(own, last),
    record: () => markers.write(databaseMarkerName, `${storeId} ${own}`, { isNew: marker === '' }),
  }
}

/** Compares two identities. An embedded database may also be the `database.url` of a command, without the prefix. */
function isSameDatabase(one: string, other: string): boolean {
  const idOf = (identity: string): string => (identity.startsWith(embeddedPrefix) ? identity.slice(embeddedPrefix.length) : identity)
  return (one.startsWith(embeddedPrefix) && other.startsWith(embeddedPrefix)) || idOf(one) === idOf(other)
}

/**
 * Records this database in a store without a record, and the cluster of an embedded database after an upgrade. Throws ConfigError if another database
 * used the store last.
 */
export async function claimStore(db: Db, markers: Markers, config: Pick<Config, 'database'>): Promise<void> {
  const { own, last, isOwn, record } = await loadStoreUse(db, markers, config)
  if (own === null || last === own) return
  // Files of a store that is full or read-only can still be read.
  if (last === null || (isOwn && own.startsWith(embeddedPrefix))) await record().catch(() => undefined)
  // Another database may have recorded itself at the same time.
  await rejectOtherDatabase(db, markers, config)
}

/** Throws ConfigError if another database used the store last. Writes nothing. */
export async function rejectOtherDatabase(db: Db, markers: Markers, config: Pick<Config, 'database'>): Promise<void> {
  const { own, last, isOwn } = await loadStoreUse(db, markers, config)
  if (own === null || last === null || isOwn) return
  const problem = `the document store ${markers.location} was last used by another database (${last}; this one is ${own}): one of them is a copy, or the database was moved`
  throw Object.assign(new ConfigError([problem]), { fix: ['if the other database is not used any more: ', dms`storage adopt`] })
}
