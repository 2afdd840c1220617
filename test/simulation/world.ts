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
  /** versions of documents that have the bytes, in the trash or not */
  versions: string[]
  /** file_removals */
  removals: string[]
  storeId: string
}

export interface Actor {
  /** label of the next step; '' once it has ended */
  at: string
  /** whether its connection was lost since its last transaction began */
  isLost: boolean
  /** writes of its open transaction; null: none */
  writes: Write[] | null
  /** what it has read */
  seen: string[]
  outcome: '' | 'done' | 'failed' | 'crashed'
}

export interface World {
  tables: Tables
  /** by address */
  files: Record<string, 'intact' | 'damaged'>
  /** notes of bytes that got their name: address -> the actor that means to remove the note; '' once nobody does */
  notes: Record<string, string>
  /** whose transaction holds the row of the bytes; '' nobody */
  rowLock: string
  /** the holder of the row means to delete it (FOR UPDATE) */
  isRowLockedForDeletion: boolean
  /** transactions that refer to the row: it cannot be deleted before they end (FOR KEY SHARE) */
  rowReferences: string[]
  /** whose transaction holds the document whose versions change; '' nobody */
  documentLock: string
  /** transactions and sessions that share the files lock, or the one that has it alone */
  sharedLocks: string[]
  exclusiveLock: string
  /** transactions whose COMMIT is on its way while their process knows nothing of it */
  inFlight: Record<string, Write[]>
  actors: Record<string, Actor>
  faults: number
  /** the claim of a restore that has not ended: before or after it wrote down where to ask for its COMMIT; '' none */
  claim: '' | 'files' | 'commit'
  /** what a backup that succeeded has: the bytes of each row of its snapshot */
  backups: { isWhole: boolean; hasLostLock: boolean }[]
}

export const emptyTables: Tables = { row: null, versions: [], removals: [], storeId: 'ours' }

export const newActor = (at: string): Actor => ({ at, isLost: false, writes: null, seen: [], outcome: '' })

/** What a transaction sees: what is committed, and its own writes. */
export const viewOf = (world: World, name: string): Tables => applied(world.tables, actorOf(world, name).writes ?? [])

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

/** The row can be locked for its deletion: nobody refers to it in a transaction that is open. */
export const isRowUnreferenced = (world: World, name: string): boolean => isRowFree(world, name) && world.rowReferences.length === 0

export function lockRow(world: World, name: string, isForDeletion = false): void {
  world.rowLock = name
  world.isRowLockedForDeletion = isForDeletion
}

/** Ends the transaction of an actor; without `isCommitted` nothing of it stays. */
export function end(world: World, name: string, isCommitted: boolean): void {
  const actor = actorOf(world, name)
  if (isCommitted) world.tables = applied(world.tables, actor.writes ?? [])
  actor.writes = null
  release(world, name)
}

/** The process loses its connection while the server still works on its COMMIT: the locks stay until that has ended. */
export function sendOff(world: World, name: string): void {
  const actor = actorOf(world, name)
  const transaction = `${name}'s COMMIT`
  world.inFlight[transaction] = actor.writes ?? []
  if (world.rowLock === name) world.rowLock = transaction
  if (world.documentLock === name) world.documentLock = transaction
  world.rowReferences = world.rowReferences.map((holder) => (holder === name ? transaction : holder)).sort()
  world.sharedLocks = world.sharedLocks.map((holder) => (holder === name ? transaction : holder)).sort()
  Object.assign(actor, { writes: null, isLost: true })
}

/** The server comes to the end of such a COMMIT. */
export function land(world: World, transaction: string, isCommitted: boolean): void {
  if (isCommitted) world.tables = applied(world.tables, world.inFlight[transaction] ?? [])
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

function applied(tables: Tables, writes: readonly Write[]): Tables {
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
