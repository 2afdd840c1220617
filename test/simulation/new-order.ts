/** The order of side effects in the code: rows are committed first, files follow, and no address is used twice. */
import { commit, local, type Program, query, type Step } from './program.ts'
import { actorOf, begin, end, isRowFree, isRowUnreferenced, lockRow, readTables, type World, write } from './world.ts'

const storedFiles = 'documents/stored-files.ts'
const removeFiles = 'documents/purge.ts'

/** After the files lock was free: the files are removed, with or without a connection. */
const phaseTwo: readonly Step[] = [
  local({
    label: 'share files lock',
    mirrors: ['db/lock.ts', 'isFileRemovalLocked'],
    run(world, self) {
      if (world.exclusiveLock !== '') return ''
      begin(world, self)
      world.sharedLocks = [...world.sharedLocks, self].sort()
      return 'list removals'
    },
  }),
  query({
    label: 'list removals',
    mirrors: [removeFiles, 'listRemovable'],
    run(world, self) {
      const { removals, row } = readTables(world, self)
      if (row !== null && removals.includes(row)) write(world, self, ['removal done', row])
      actorOf(world, self).values = removals.filter((address) => address !== row)
      return 'end look'
    },
  }),
  commit({ label: 'end look', mirrors: [removeFiles, 'listRemovable'], run: (world, self) => endThen(world, self, 'unlink') }),
  local({
    label: 'unlink',
    mirrors: ['files/stores/disk.ts', 'remove'],
    run(world, self) {
      const [address] = actorOf(world, self).values
      if (address === undefined) return ''
      delete world.files[address]
      return 'removal done'
    },
  }),
  local({
    label: 'removal done',
    mirrors: [removeFiles, 'removeFiles'],
    run(world, self) {
      const { values: seen } = actorOf(world, self)
      const address = seen.shift()
      world.tables.removals = world.tables.removals.filter((other) => other !== address)
      return 'unlink'
    },
  }),
]

const failed = local({ label: 'failed', mirrors: ['worker/run-job.ts', 'runJob'], run: (world, self) => fail(world, self) })

export const purge: Program = [
  local({
    label: 'lock row',
    mirrors: [storedFiles, 'lockExisting'],
    isReady: isRowUnreferenced,
    run(world, self) {
      if (world.tables.row === null) return 'share files lock'
      begin(world, self)
      lockRow(world, self, true)
      actorOf(world, self).values = [world.tables.row]
      return 'is it used'
    },
  }),
  query({
    label: 'is it used',
    mirrors: [storedFiles, 'usesOf'],
    run: (world, self) => (readTables(world, self).versions.length > 0 ? endThen(world, self, 'share files lock') : 'forget'),
  }),
  query({
    label: 'forget',
    mirrors: [removeFiles, 'releaseUnused'],
    run(world, self) {
      const [address = ''] = actorOf(world, self).values
      write(world, self, ['row', null], ['removal', address])
      return 'commit removal'
    },
  }),
  commit({
    label: 'commit removal',
    mirrors: ['documents/purge.ts', 'purgeHandler'],
    run: (world, self) => endThen(world, self, 'share files lock'),
  }),
  ...phaseTwo,
  failed,
]

/** Cleans up after an upload whose process died, or that failed after the commit of its file. */
export const purgeUncommitted: Program = [
  local({
    label: 'read notes',
    mirrors: ['documents/purge.ts', 'purgeUncommitted'],
    isReady: (world) => Object.values(world.commitMarkers).includes(''),
    run(world, self) {
      actorOf(world, self).values = Object.keys(world.commitMarkers)
        .filter((address) => world.commitMarkers[address] === '')
        .slice(0, 1)
      return 'lock row'
    },
  }),
  local({
    label: 'lock row',
    mirrors: [storedFiles, 'lockOrCreate'],
    isReady: isRowFree,
    run: (world, self) => lockThen(world, self, 'forget'),
  }),
  query({
    label: 'forget',
    mirrors: [removeFiles, 'releaseUncommitted'],
    run(world, self) {
      const [address = ''] = actorOf(world, self).values
      if (readTables(world, self).row !== address) write(world, self, ['removal', address])
      return 'commit removal'
    },
  }),
  commit({
    label: 'commit removal',
    mirrors: ['documents/purge.ts', 'purgeHandler'],
    run(world, self) {
      const [address = ''] = actorOf(world, self).values
      delete world.commitMarkers[address]
      return endThen(world, self, 'share files lock')
    },
  }),
  ...phaseTwo,
  failed,
]

/** `isOwner`: the owner of the upload has a document with equal bytes, if there is one: they are compared. */
export const upload = (own: string, isOwner: boolean): Program => [
  local({
    label: 'compare early',
    mirrors: [storedFiles, 'compareLargeFiles'],
    run(world, self) {
      const { row, versions } = world.tables
      if (isOwner && row !== null && versions.length > 0) actorOf(world, self).values = [row, String(world.files[row] === 'intact')]
      return 'lock row'
    },
  }),
  local({
    label: 'lock row',
    mirrors: [storedFiles, 'lockOrCreate'],
    isReady: isRowFree,
    run(world, self) {
      lockThen(world, self, '')
      const actor = actorOf(world, self)
      const [compared, isEqual] = actor.values
      const address = world.tables.row ?? own
      actor.values = [address]
      if (address === own) {
        write(world, self, ['row', own])
        return 'name bytes'
      }
      if (!isOwner || world.tables.versions.length === 0) return 'name bytes'
      if (compared !== address) return 'compare'
      return isEqual === 'true' ? 'insert version' : 'name bytes'
    },
  }),
  local({
    label: 'compare',
    mirrors: ['files/compare-files.ts', 'hasSameBytes'],
    run: (world, self) => (world.files[actorOf(world, self).values[0] ?? ''] === 'intact' ? 'insert version' : 'name bytes'),
  }),
  local({
    label: 'name bytes',
    mirrors: ['files/stores/disk.ts', 'renameDurably'],
    run(world, self) {
      world.commitMarkers[own] = self
      world.files[own] = 'intact'
      return 'point row'
    },
  }),
  query({
    label: 'point row',
    mirrors: [storedFiles, 'ensureBytes'],
    run(world, self) {
      const [address = own] = actorOf(world, self).values
      if (address !== own) write(world, self, ['row', own], ['removal', address])
      return 'insert version'
    },
  }),
  query({
    label: 'insert version',
    mirrors: ['documents/store-document.ts', 'storeDocument'],
    run(world, self) {
      write(world, self, ['version', `of ${self}`])
      return 'commit'
    },
  }),
  commit({
    label: 'commit',
    mirrors: ['documents/uploads/requests.ts', 'storeOne'],
    run(world, self) {
      actorOf(world, self).outcome = 'done'
      return endThen(world, self, 'keep')
    },
  }),
  local({
    label: 'keep',
    mirrors: ['files/stores/disk.ts', 'confirm'],
    run(world) {
      delete world.commitMarkers[own]
      return ''
    },
  }),
  local({
    label: 'failed',
    mirrors: ['files/stores/disk.ts', 'discard'],
    run(world, self) {
      if (world.commitMarkers[own] === self) world.commitMarkers[own] = ''
      return fail(world, self)
    },
  }),
]

/** Changes of the versions of one document, which wait for each other. The version `old` has the bytes. */
const lockDocument = (name: readonly [string, string], next: string): Step =>
  local({
    label: 'lock document',
    mirrors: name,
    isReady: ({ documentLock }) => documentLock === '',
    run(world, self) {
      begin(world, self)
      world.documentLock = self
      return next
    },
  })

/** Makes the bytes of the version `old` current again. */
export const restoreVersion: Program = [
  lockDocument(['documents/versions/versions.ts', 'lockDocument'], 'find version'),
  query({
    label: 'find version',
    mirrors: ['documents/versions/versions.ts', 'find'],
    run: (world, self) => (readTables(world, self).versions.includes('old') ? 'insert version' : endThen(world, self, 'failed')),
  }),
  query({
    label: 'insert version',
    mirrors: ['documents/versions/versions.ts', 'restoreVersions'],
    // The foreign key waits for a purge that has locked the row.
    isReady: ({ isRowLockedForDeletion }) => !isRowLockedForDeletion,
    run(world, self) {
      if (world.tables.row === null) return endThen(world, self, 'failed')
      world.rowReferences = [...world.rowReferences, self].sort()
      write(world, self, ['version', 'restored version'])
      return 'commit'
    },
  }),
  commit({
    label: 'commit',
    mirrors: ['documents/versions/versions.ts', 'restore'],
    run(world, self) {
      actorOf(world, self).outcome = 'done'
      return endThen(world, self, '')
    },
  }),
  failed,
]

/** Deletes the version `old`, or with `isWhole` the document with all versions. A purge follows at any time. */
export const deleteVersions = (isWhole: boolean): Program => {
  const name = isWhole
    ? (['documents/trash/destroy.ts', 'destroyDocuments'] as const)
    : (['documents/versions/versions.ts', 'remove'] as const)
  return [
    lockDocument(name, 'delete versions'),
    query({
      label: 'delete versions',
      mirrors: name,
      run(world, self) {
        write(world, self, ['version deleted', 'old'])
        if (isWhole) write(world, self, ['version deleted', 'restored version'])
        return 'commit'
      },
    }),
    commit({ label: 'commit', mirrors: name, run: (world, self) => endThen(world, self, '') }),
    failed,
  ]
}

export const backup: Program = [
  local({
    label: 'lock files',
    mirrors: ['db/lock.ts', 'withLock'],
    isReady: ({ sharedLocks, exclusiveLock }) => sharedLocks.length === 0 && exclusiveLock === '',
    run(world, self) {
      world.exclusiveLock = self
      return 'snapshot'
    },
  }),
  local({
    label: 'snapshot',
    mirrors: ['backup/create/snapshot.ts', 'openSnapshot'],
    run(world, self) {
      actorOf(world, self).values = world.tables.row === null ? [] : [world.tables.row]
      return 'copy file'
    },
  }),
  local({
    label: 'copy file',
    mirrors: ['backup/create/copy-stored-files.ts', 'copyStoredFiles'],
    run(world, self) {
      const { values: seen, isLost } = actorOf(world, self)
      world.backups.push({ isWhole: seen.every((address) => world.files[address] !== undefined), hasLostLock: isLost })
      return 'release'
    },
  }),
  local({ label: 'release', mirrors: ['db/lock.ts', 'withLock'], run: (world, self) => endThen(world, self, '') }),
]

/** `dms check --repair` of files without a row. The model has no grace period: it is safe without one. */
export const orphans: Program = [
  local({
    label: 'list files',
    mirrors: ['check/stored-files.ts', 'findFilesWithoutRow'],
    // A folder that is being filled belongs to another store id: no other program takes it.
    isReady: (world) => world.claim === '' && listUnreferenced(world).length > 0,
    run(world, self) {
      actorOf(world, self).values = listUnreferenced(world).slice(0, 1)
      return 'lock row'
    },
  }),
  local({
    label: 'lock row',
    mirrors: [storedFiles, 'lockOrCreate'],
    isReady: isRowFree,
    run: (world, self) => lockThen(world, self, 'is it used'),
  }),
  query({
    label: 'is it used',
    mirrors: [storedFiles, 'usesOf'],
    run(world, self) {
      const [address = ''] = actorOf(world, self).values
      const { row, removals } = readTables(world, self)
      return row === address || removals.includes(address) ? endThen(world, self, '') : 'commit'
    },
  }),
  commit({
    label: 'commit',
    mirrors: ['check/stored-files.ts', 'quarantineUnused'],
    run: (world, self) => endThen(world, self, 'quarantine'),
  }),
  local({
    label: 'quarantine',
    mirrors: ['check/stored-files.ts', 'quarantineUnused'],
    run(world, self) {
      delete world.files[actorOf(world, self).values[0] ?? '']
      return ''
    },
  }),
  failed,
]

/** After the last certain step of a restore: the database tells whether the files are needed. A COMMIT in progress is waited for. */
const outcome: readonly Step[] = [
  local({
    label: 'ask for outcome',
    mirrors: ['backup/restore/commit-outcome.ts', 'waitForCommitOutcome'],
    isReady: ({ inFlight }) => !Object.keys(inFlight).some((transaction) => transaction.startsWith('restore')),
    run: ({ tables }) => (tables.storeId === 'restored' ? 'end filling' : 'remove files'),
  }),
  local({
    label: 'end filling',
    mirrors: ['files/restore-marker.ts', 'endRestore'],
    run(world) {
      world.claim = ''
      return ''
    },
  }),
  local({
    label: 'remove files',
    mirrors: ['backup/restore/restore.ts', 'undoRestore'],
    run(world, self) {
      delete world.files.restored
      world.claim = ''
      return fail(world, self)
    },
  }),
]

export const restore: Program = [
  local({
    label: 'claim folder',
    mirrors: ['files/restore-marker.ts', 'beginRestore'],
    run(world) {
      world.claim = 'files'
      return 'store files'
    },
  }),
  local({
    label: 'store files',
    mirrors: ['backup/restore/file-writer.ts', 'openFileWriter'],
    run(world) {
      world.files.restored = 'intact'
      return 'copy rows'
    },
  }),
  local({
    label: 'copy rows',
    mirrors: ['backup/restore/load-backup.ts', 'loadEntries'],
    isReady: isRowFree,
    run(world, self) {
      begin(world, self)
      lockRow(world, self)
      write(world, self, ['row', 'restored'], ['version', 'restored'], ['store id', 'restored'])
      return 'note commit'
    },
  }),
  local({
    label: 'note commit',
    mirrors: ['files/restore-marker.ts', 'writeClaim'],
    run(world) {
      world.claim = 'commit'
      return 'commit'
    },
  }),
  {
    ...commit({
      label: 'commit',
      mirrors: ['backup/restore/load-backup.ts', 'loadBackup'],
      run: (world, self) => endThen(world, self, 'end filling'),
    }),
    onLost: 'ask for outcome',
  },
  ...outcome,
]

/** First step of the next restore into the folder, after the one before was killed. */
export const nextRestore: Program = [
  local({
    label: 'read claim',
    mirrors: ['backup/restore/restore.ts', 'resolveInterruptedRestore'],
    isReady: ({ claim, actors }) => claim !== '' && actors.restore?.outcome === 'crashed',
    run: ({ claim }) => (claim === 'commit' ? 'ask for outcome' : 'remove files'),
  }),
  ...outcome,
]

function listUnreferenced({ files, tables }: World): string[] {
  return Object.keys(files)
    .filter((address) => address !== tables.row && !tables.removals.includes(address))
    .sort()
}

function lockThen(world: World, self: string, next: string): string {
  begin(world, self)
  lockRow(world, self)
  return next
}

function endThen(world: World, self: string, next: string): string {
  end(world, self, true)
  return next
}

export function fail(world: World, self: string): string {
  actorOf(world, self).outcome = 'failed'
  return ''
}
