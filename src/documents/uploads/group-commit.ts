/**
 * Group commit: one transaction stores the files of concurrent uploads. Alone, each would pay for its own round trips to the database, and its commit
 * would wait for the disk (bench/upload.ts, "400 × 10 kB").
 */
import type { App } from '../../app.ts'
import { isRolledBack } from '../../db/pool.ts'
import type { NewUpload } from '../store-document.ts'
import type { Document } from '../view.ts'
import { storeNew } from './store-new.ts'

/** Uploads stored by one transaction. */
const maxGroupSize = 100

/** Maximum time that a group waits for requests that have begun. Larger groups take less processor time for each upload. */
const maxGatherMs = 20

interface Waiting {
  upload: NewUpload
  done: PromiseWithResolvers<Document | null>
}

/**
 * Stores an upload with others that arrive while a group is being committed. Returns null if the upload has to be stored alone: its bytes are
 * stored already, or a member of its group failed. Throws if the answer of COMMIT is lost.
 */
export type StoreInGroup = (upload: NewUpload) => Promise<Document | null>

export interface GroupCommit {
  readonly store: StoreInGroup
  /** Runs a request that will soon call `store`. The next group waits for it, later ones do not. */
  announce<T>(request: () => Promise<T>): Promise<T>
}

/** Opens the group commit. */
export function openGroupCommit(app: App): GroupCommit {
  let waiting: Waiting[] = []
  let isRunning = false
  const announced = new Set<symbol>()
  let onComplete = () => {}
  const isComplete = () => waiting.length >= announced.size

  /**
   * Waits until the announced uploads have arrived. Those of the group before still count: their clients usually send the next file at once, and then
   * join this group.
   */
  const gather = async (): Promise<void> => {
    if (isComplete()) return
    const { promise, resolve } = Promise.withResolvers<void>()
    onComplete = resolve
    const timer = setTimeout(() => {
      announced.clear()
      resolve()
    }, maxGatherMs)
    await promise
    clearTimeout(timer)
  }

  const storeGroup = async (group: readonly Waiting[]): Promise<void> => {
    let isCommitting = false
    try {
      const uploads = group.map(({ upload }) => upload)
      const documents = await app.db.transaction().execute(async (trx) => {
        const stored = await storeNew(app, trx, uploads)
        isCommitting = true
        return stored
      })
      await Promise.all(uploads.map((upload) => documents.has(upload) && upload.staged.confirm()))
      for (const { upload, done } of group) done.resolve(documents.get(upload) ?? null)
    } catch (error) {
      // If the answer of COMMIT is lost, the transaction may have been committed: storing its members again could store them twice.
      const canRetry = !isCommitting || isRolledBack(error)
      for (const { upload, done } of group) {
        if (canRetry) {
          upload.staged.rollback()
          done.resolve(null)
        } else done.reject(error)
      }
    }
  }
  const run = async (): Promise<void> => {
    isRunning = true
    // Requests that arrived together join the first group.
    await new Promise(setImmediate)
    while (waiting.length > 0) {
      await gather()
      const group = waiting.slice(0, maxGroupSize)
      waiting = waiting.slice(maxGroupSize)
      await storeGroup(group)
    }
    isRunning = false
  }
  return {
    store(upload) {
      const done = Promise.withResolvers<Document | null>()
      waiting.push({ upload, done })
      if (!isRunning) void run()
      else if (isComplete()) onComplete()
      return done.promise
    },
    async announce(request) {
      const ticket = Symbol()
      announced.add(ticket)
      try {
        return await request()
      } finally {
        announced.delete(ticket)
      }
    },
  }
}
