/** Builds a new Meilisearch index, and swaps it with the active one. */
import type { IndexSwap } from 'meilisearch'
import type { IndexRebuild } from '../../../ports/search-engine.ts'
import { send, type Target } from './index-documents.ts'

/**
 * Maximum number of unfinished tasks while the next batch is read. Meilisearch indexes waiting tasks together, and each time rewrites the lists of all
 * their words: many small steps take several times as long. Tasks wait on its disk, at most 1 GB.
 */
const maxPendingTasks = 100

/** Starts a rebuild. Removes the new index of an interrupted one. */
export async function startRebuild(target: Target, index: string): Promise<IndexRebuild> {
  const { server } = target
  const next = `${index}_next`
  await server.remove(next)
  await server.prepare(next)
  const tasks: number[] = []
  let isActive = false
  let isKept = false
  const waitForTasks = async (maxPending: number) => {
    while (tasks.length > maxPending) await server.waitForTask(tasks.shift()!)
  }
  return {
    // swap() exchanges the names.
    keptAs: next,
    async put(ids) {
      tasks.push(...(await send(target, isActive ? index : next, ids)))
      await waitForTasks(isActive ? 0 : maxPendingTasks)
    },
    async complete() {
      await waitForTasks(0)
      return (await server.request(next, (built) => built.getStats())).numberOfDocuments
    },
    async swap({ keepOld = false } = {}) {
      await waitForTasks(0)
      await server.prepare(index)
      // Older servers reject `rename`, which the type requires.
      const pair = { indexes: [index, next] } as unknown as IndexSwap
      await server.waitForTask(await server.enqueue((client) => client.swapIndexes([pair])))
      isActive = true
      isKept = keepOld
      if (!isKept) await server.remove(next)
    },
    discard: async () => (isKept ? undefined : server.remove(next)),
  }
}
