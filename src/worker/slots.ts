/** Slots of a worker: the number of jobs of each queue that it runs concurrently. */
import type { Job, Queue } from '../jobs/queue.ts'

/**
 * Maximum number of concurrent jobs by queue, except OCR. Two syncs: a slow source must not delay all others. sources.max_syncs_per_user limits those
 * of one user. Four maintenance jobs, because they mostly wait for the document store or the mail server.
 */
const concurrencyOf = { sync: 2, index: 1, maintenance: 4 } as const

interface SlotJob {
  job: Job
  /** id of the first job of its group, which occupies one slot together */
  slot: string
}

interface SlotLimits {
  /** maximum number of concurrent OCR jobs */
  ocr: number
  /** maximum number of jobs that occupy no slot while they wait for a transaction; each needs a connection of the pool */
  waiting: number
}

/** Creates the slots. A job occupies none after a transaction has locked its row for a second: it waits for that transaction, such as the deletion of its user. */
export function createSlots({ ocr, waiting: maxWaiting }: SlotLimits) {
  let lockedIds: ReadonlySet<string> = new Set()
  let waitingIds: ReadonlySet<string> = new Set()
  const countSlots = (jobs: readonly SlotJob[]) => new Set(jobs.map(({ slot }) => slot)).size
  return {
    /** Records the running jobs with locked rows. Call it each second. Returns whether a job waits. */
    setLocked(ids: ReadonlySet<string>): boolean {
      waitingIds = new Set([...ids].filter((id) => lockedIds.has(id)))
      lockedIds = ids
      return waitingIds.size > 0
    },
    countFree(queue: Queue, running: Iterable<SlotJob>): number {
      const jobs = [...running].filter(({ job }) => job.queue === queue)
      const waiting = countSlots(jobs.filter(({ job }) => waitingIds.has(job.id)))
      return (queue === 'ocr' ? ocr : concurrencyOf[queue]) - countSlots(jobs) + Math.min(waiting, maxWaiting)
    },
  }
}
