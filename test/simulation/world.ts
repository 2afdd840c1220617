/** A model of PostgreSQL and of the file store, for one SHA-256: rows, row lock, advisory lock, transactions, files. Plain data: a state is its JSON text. */

/** What a transaction changes at its commit. */
export type Write =
  | readonly ['row', address: string | null]
  | readonly ['version', id: string]
  | readonly ['version deleted', id: string]
  | readonly ['removal', address: string]
  | readonly ['removal done', address: string]
  | readonly ['store id', id: string]

export interface Tables {
  /** stored_files: the address of the bytes; null: no row */
  row: string | null
  /** versions of documents with the bytes, also in the trash */
  versions: string[]
  /** file_removals */
  removals: string[]
  storeId: string
}

export interface Actor {
  /** label of the next step; '' after the last one */
  nextStep: string
  /** whether its connection was lost since its last transaction began */
  isLost: boolean
  /** writes of its open transaction; null: none */
  writes: Write[] | null
  /** values that it has read */
  values: string[]
  outcome: '' | 'done' | 'failed' | 'crashed'
}

export interface World {
  tables: Tables
  /** by address */
  files: Record<string, 'intact' | 'damaged'>
  /** markers of committed files: address -> the actor that will remove the marker; '' without one */
  commitMarkers: Record<string, string>
  /** actor whose transaction has locked the row of the bytes; '': none */
  rowLock: string
  /** the holder of the row will delete it (FOR UPDATE) */
  isRowLockedForDeletion: boolean
  /** transactions that refer to the row, which cannot be deleted before their end (FOR KEY SHARE) */
  rowReferences: string[]
  /** actor whose transaction has locked the document; '': none */
  documentLock: string
  /** transactions and sessions that share the files lock, or the one that holds it exclusively */
  sharedLocks: string[]
  exclusiveLock: string
  /** transactions with a COMMIT in progress whose process has lost its connection */
  inFlight: Record<string, Write[]>
  actors: Record<string, Actor>
  faults: number
  /** claim of an unfinished restore: before or after it wrote where to ask for its COMMIT; '': none */
  claim: '' | 'files' | 'commit'
  /** content of a successful backup: the bytes of each row of its snapshot */
  backups: { isWhole: boolean; hasLostLock: boolean }[]
}

export const emptyTables: Tables = { row: null, versions: [], removals: [], storeId: 'ours' }

export const newActor = (at: string): Actor => ({ nextStep: at, isLost: false, writes: null, values: [], outcome: '' })

/** Returns what a transaction sees: committed rows and its own writes. */
export const readTables = (world: World, name: string): Tables => applyWrites(world.tables, actorOf(world, name).writes ?? [])

export function actorOf(world: World, name: string): Actor {
  const actor = world.actors[name]
  if (!actor) throw new Error(`no actor ${name}`)
  return actor
}

export function begin(world: World, name: string): void {
  Object.assign(actorOf(world, name), { writes: [], isLost: false })
}

export function write(world: World, name: string, ...writes: Write[]): void {
  actorOf(world, name).writes?.push(...writes)
}

export const isRowFree = (world: World, name: string): boolean => world.rowLock === '' || world.rowLock === name

/** Returns whether the row can be locked for deletion: no open transaction refers to it. */
export const isRowUnreferenced = (world: World, name: string): boolean => isRowFree(world, name) && world.rowReferences.length === 0

export function lockRow(world: World, name: string, isForDeletion = false): void {
  world.rowLock = name
  world.isRowLockedForDeletion = isForDeletion
}

/** Ends the transaction of an actor; without `isCommitted` it is rolled back. */
export function end(world: World, name: string, isCommitted: boolean): void {
  const actor = actorOf(world, name)
  if (isCommitted) world.tables = applyWrites(world.tables, actor.writes ?? [])
  actor.writes = null
  release(world, name)
}

/** The process loses its connection during its COMMIT: the locks stay until the server has finished it. */
export function loseConnectionInCommit(world: World, name: string): void {
  const actor = actorOf(world, name)
  const transaction = `${name}'s COMMIT`
  world.inFlight[transaction] = actor.writes ?? []
  if (world.rowLock === name) world.rowLock = transaction
  if (world.documentLock === name) world.documentLock = transaction
  world.rowReferences = world.rowReferences.map((holder) => (holder === name ? transaction : holder)).sort()
  world.sharedLocks = world.sharedLocks.map((holder) => (holder === name ? transaction : holder)).sort()
  Object.assign(actor, { writes: null, isLost: true })
}

/** The server finishes such a COMMIT. */
export function resolveLostCommit(world: World, transaction: string, isCommitted: boolean): void {
  if (isCommitted) world.tables = applyWrites(world.tables, world.inFlight[transaction] ?? [])
  delete world.inFlight[transaction]
  release(world, transaction)
}

function release(world: World, holder: string): void {
  if (world.rowLock === holder) Object.assign(world, { rowLock: '', isRowLockedForDeletion: false })
  if (world.documentLock === holder) world.documentLock = ''
  world.rowReferences = world.rowReferences.filter((other) => other !== holder)
  if (world.exclusiveLock === holder) world.exclusiveLock = ''
  world.sharedLocks = world.sharedLocks.filter((other) => other !== holder)
}

function applyWrites(tables: Tables, writes: readonly Write[]): Tables {
  const next = { ...tables, versions: [...tables.versions], removals: [...tables.removals] }
  for (const [what, value] of writes) {
    if (what === 'row') next.row = value
    else if (what === 'version') next.versions = [...new Set([...next.versions, value])].sort()
    else if (what === 'version deleted') next.versions = next.versions.filter((version) => version !== value)
    else if (what === 'removal') next.removals = [...new Set([...next.removals, value])].sort()
    else if (what === 'removal done') next.removals = next.removals.filter((address) => address !== value)
    else next.storeId = value
  }
  return next
}
