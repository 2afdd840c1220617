/**
 * The earlier order of side effects: one address for equal bytes, files removed inside the transaction, a restore that removes files of an unknown
 * COMMIT.
 */
import { backup, fail, restore as newRestore } from './new-order.ts'
import { commit, local, type Program, query } from './program.ts'
import { actorOf, begin, end, isRowFree, lockRow, readTables, write } from './world.ts'

/** Address of the bytes: their SHA-256. */
const address = 'first'
const none = ['', ''] as const

export { backup }

export const purge: Program = [
  local({
    label: 'share files lock',
    mirrors: none,
    run(world, self) {
      if (world.exclusiveLock !== '') return ''
      begin(world, self)
      world.sharedLocks = [...world.sharedLocks, self].sort()
      return 'lock row'
    },
  }),
  query({
    label: 'lock row',
    mirrors: none,
    isReady: isRowFree,
    run(world, self) {
      lockRow(world, self)
      return 'is it used'
    },
  }),
  query({
    label: 'is it used',
    mirrors: none,
    run(world, self) {
      if (readTables(world, self).versions.length === 0) return 'forget'
      end(world, self, true)
      return ''
    },
  }),
  query({
    label: 'forget',
    mirrors: none,
    run(world, self) {
      write(world, self, ['row', null])
      return 'unlink'
    },
  }),
  local({
    label: 'unlink',
    mirrors: none,
    run(world) {
      delete world.files[address]
      return 'commit'
    },
  }),
  commit({
    label: 'commit',
    mirrors: none,
    run(world, self) {
      end(world, self, true)
      return ''
    },
  }),
  local({ label: 'failed', mirrors: none, run: (world, self) => fail(world, self) }),
]

export const upload: Program = [
  local({
    label: 'lock row',
    mirrors: none,
    isReady: isRowFree,
    run(world, self) {
      begin(world, self)
      lockRow(world, self)
      write(world, self, ['row', address])
      return 'name bytes'
    },
  }),
  local({
    label: 'name bytes',
    mirrors: none,
    run(world) {
      world.files[address] ??= 'intact'
      return 'insert version'
    },
  }),
  query({
    label: 'insert version',
    mirrors: none,
    run(world, self) {
      write(world, self, ['version', `of ${self}`])
      return 'commit'
    },
  }),
  commit({
    label: 'commit',
    mirrors: none,
    run(world, self) {
      actorOf(world, self).outcome = 'done'
      end(world, self, true)
      return ''
    },
  }),
  local({ label: 'failed', mirrors: none, run: (world, self) => fail(world, self) }),
]

export const restore: Program = newRestore.map((step) => {
  if (step.label === 'commit') return { ...step, onLost: 'remove files' }
  if (step.label !== 'remove files') return step
  return local({
    label: 'remove files',
    mirrors: none,
    run(world, self) {
      world.files = {}
      world.claim = ''
      return fail(world, self)
    },
  })
})
