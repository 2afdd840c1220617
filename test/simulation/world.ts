/** A model of PostgreSQL and of the file store, for one SHA-256: rows, row lock, advisory lock, transactions, files. Plain data: a state is its JSON text. */

/** What a transaction changes at its commit. */
export type Write =
  | readonly ['row', address: string | null]
  | readonly ['document', id: string]
  | readonly ['removal', address: string]
  | readonly ['removal done', address: string]
  | readonly ['store id', id: string]

export interface Tables {
  /** stored_files: the address of the bytes; null: no row */
  row: string | null
  /** documents that have the bytes */
  documents: string[]
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

export const emptyTables: Tables = { row: null, documents: [], removals: [], storeId: 'ours' }

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

export function lockRow(world: World, name: string): void {
  world.rowLock = name
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
  if (world.rowLock === holder) world.rowLock = ''
  if (world.exclusiveLock === holder) world.exclusiveLock = ''
  world.sharedLocks = world.sharedLocks.filter((other) => other !== holder)
}

function applied(tables: Tables, writes: readonly Write[]): Tables {
  const next = { ...tables, documents: [...tables.documents], removals: [...tables.removals] }
  for (const [what, value] of writes) {
    if (what === 'row') next.row = value
    else if (what === 'document') next.documents = [...new Set([...next.documents, value])].sort()
    else if (what === 'removal') next.removals = [...new Set([...next.removals, value])].sort()
    else if (what === 'removal done') next.removals = next.removals.filter((address) => address !== value)
    else next.storeId = value
  }
  return next
}
