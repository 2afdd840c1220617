/** Combinations of actors, and the invariants of every state. */
import { type Explored, explore, type Invariant } from './explore.ts'
import * as newOrder from './new-order.ts'
import * as oldOrder from './old-order.ts'
import type { Program } from './program.ts'
import { emptyTables, newActor, type World } from './world.ts'

export type Order = 'old' | 'new'

interface Scenario {
  name: string
  /** `first`: the address of the bytes; undefined: they are not stored yet */
  start: Partial<Pick<World, 'tables' | 'files'>>
  actors: Partial<Record<Order, Record<string, Program>>> & { new: Record<string, Program> }
}

const unused: Scenario['start'] = { tables: { ...emptyTables, row: 'first' }, files: { first: 'intact' } }
const { purge, purgeUncommitted: sweep, upload, backup, orphans, restore, nextRestore, restoreVersion, deleteVersions } = newOrder
/** One version has the bytes. */
const oneVersion: Scenario['start'] = { tables: { ...emptyTables, row: 'first', versions: ['old'] }, files: { first: 'intact' } }

const scenarios: readonly Scenario[] = [
  {
    name: 'purge twice, upload twice',
    start: unused,
    actors: {
      new: { purge, 'other purge': purge, upload: upload('second', false), 'other upload': upload('third', true) },
      old: { purge: oldOrder.purge, 'other purge': oldOrder.purge, upload: oldOrder.upload, 'other upload': oldOrder.upload },
    },
  },
  {
    name: 'purge, upload, backup',
    start: unused,
    actors: {
      new: { purge, upload: upload('second', false), backup },
      old: { purge: oldOrder.purge, upload: oldOrder.upload, backup },
    },
  },
  {
    name: 'upload twice, sweep of unfinished uploads, backup',
    start: {},
    actors: {
      new: { upload: upload('second', false), 'other upload': upload('third', true), sweep, backup },
      old: { upload: oldOrder.upload, 'other upload': oldOrder.upload, purge: oldOrder.purge, backup },
    },
  },
  {
    name: 'upload twice over damaged bytes, purge',
    start: { tables: { ...emptyTables, row: 'first', versions: ['of somebody'] }, files: { first: 'damaged' } },
    actors: {
      new: { upload: upload('second', true), 'other upload': upload('third', false), purge },
      old: { upload: oldOrder.upload, 'other upload': oldOrder.upload, purge: oldOrder.purge },
    },
  },
  {
    name: 'check --repair of orphans, upload, sweep, purge',
    start: unused,
    actors: {
      new: { orphans, upload: upload('second', false), sweep, purge },
      old: { upload: oldOrder.upload, purge: oldOrder.purge },
    },
  },
  {
    name: 'restore, the next restore, backup, check --repair of orphans',
    start: {},
    actors: { new: { restore, 'next restore': nextRestore, backup, orphans }, old: { restore: oldOrder.restore, backup } },
  },
  {
    name: 'restore of a version, its deletion, purge twice',
    start: oneVersion,
    actors: { new: { 'restore version': restoreVersion, 'delete version': deleteVersions(false), purge, 'other purge': purge } },
  },
  {
    name: 'restore of a version, destruction of its document, upload of the bytes, purge',
    start: oneVersion,
    actors: { new: { 'restore version': restoreVersion, destroy: deleteVersions(true), upload: upload('second', false), purge } },
  },
  {
    name: 'deletion of a version, restore of it, backup, purge',
    start: oneVersion,
    actors: { new: { 'delete version': deleteVersions(false), 'restore version': restoreVersion, backup, purge } },
  },
]

export interface Result extends Explored {
  name: string
}

/** Explores all scenarios with at most this many faults each. */
export const exploreAll = (order: Order, maxFaults: number): Result[] =>
  scenarios.flatMap(({ name, start, actors }) => {
    const chosen = actors[order]
    if (!chosen) return []
    const programs = new Map(Object.entries(chosen))
    const world: World = {
      tables: emptyTables,
      files: {},
      commitMarkers: {},
      rowLock: '',
      isRowLockedForDeletion: false,
      rowReferences: [],
      documentLock: '',
      sharedLocks: [],
      exclusiveLock: '',
      inFlight: {},
      actors: Object.fromEntries([...programs].map(([actor, [first]]) => [actor, newActor(first?.label ?? '')])),
      faults: 0,
      claim: '',
      backups: [],
      ...start,
    }
    return [{ name, ...explore(world, programs, invariant, maxFaults) }]
  })

const invariant: Invariant = ({ tables: { row, versions }, files, actors, backups }) => {
  const isAcknowledged = Object.values(actors).some(
    ({ outcome }, index) => outcome === 'done' && versions.includes(`of ${Object.keys(actors)[index]}`),
  )
  const bytes = row === null ? undefined : files[row]
  if (isAcknowledged && bytes === undefined) return 'the bytes of an acknowledged upload are gone'
  if (isAcknowledged && bytes === 'damaged') return 'an acknowledged upload of intact bytes has damaged ones'
  if (versions.includes('restored') && bytes === undefined) return 'a restore removed the files of committed rows'
  if (versions.length > 0 && bytes === undefined) return 'a committed version has no bytes'
  const isRestored = actors['restore version']?.outcome === 'done' && actors.destroy === undefined
  if (isRestored && !versions.includes('restored version')) return 'an acknowledged restore of a version is gone'
  if (row !== null && bytes === undefined) return 'a committed row has no file'
  if (backups.some(({ isWhole, hasLostLock }) => !isWhole && !hasLostLock)) return 'a backup that held its lock lacks a file'
  return null
}
