/** Makes an index of Meilisearch anew beside the one in force, and puts it in its place. */
import type { IndexSwap } from 'meilisearch'
import { send, type Target } from './index-documents.ts'

export interface Rebuild {
  put(documentIds: readonly string[]): Promise<void>
  /** Resolves once all that was put can be found. */
  settle(): Promise<void>
  /** The old one is removed, or kept under the name of the new one. */
  swap(keepOld?: boolean): Promise<void>
  discard(): Promise<void>
}

/** Batches that wait to be indexed while the next is read. */
const ahead = 3

/** The index that is made beside `index`. */
export const nextOf = (index: string): string => `${index}_next`

/** Begins; what an interrupted one left is removed. */
export async function remake(target: Target, index: string): Promise<Rebuild> {
  const { server } = target
  const next = nextOf(index)
  await server.remove(next)
  await server.prepare(next)
  const waiting: number[] = []
  let inForce = false
  let isKept = false
  const settle = async (most: number) => {
    while (waiting.length > most) await server.finished(waiting.shift()!)
  }
  return {
    async put(ids) {
      waiting.push(...(await send(target, inForce ? index : next, ids)))
      await settle(inForce ? 0 : ahead)
    },
    settle: () => settle(0),
    async swap(keepOld = false) {
      await settle(0)
      await server.prepare(index)
      // Older servers know no `rename`.
      const pair = { indexes: [index, next] } as unknown as IndexSwap
      await server.finished(await server.order((client) => client.swapIndexes([pair])))
      inForce = true
      isKept = keepOld
      if (!isKept) await server.remove(next)
    },
    discard: async () => (isKept ? undefined : server.remove(next)),
  }
}
