/** Connections to the old and the new server of an upgrade. Several pairs copy at once. */
import { availableParallelism } from 'node:os'
import { Client } from 'pg'
import { mapConcurrently } from '../../../concurrency.ts'
import type { EmbeddedAddress } from '../embedded.ts'
import { database } from '../roles.ts'

export interface Pair {
  readonly from: Client
  readonly to: Client
}

export interface Pairs {
  readonly first: Pair
  /** Calls `work` for each item, one at a time on each pair. Throws the first error and closes all connections. */
  forEach<T>(items: Iterable<T>, work: (pair: Pair, item: T) => Promise<void>): Promise<void>
  close(): Promise<void>
}

/** More connections would wait for the disk. */
const maxPairs = 4

/** Opens a pair for each core, at most four. An abort closes them. */
export async function openPairs(source: EmbeddedAddress, target: EmbeddedAddress, signal: AbortSignal): Promise<Pairs> {
  const clients: Client[] = []
  const close = async () => {
    signal.removeEventListener('abort', close)
    await Promise.all(clients.map((client) => client.end())).catch(() => undefined)
  }
  signal.addEventListener('abort', close, { once: true })
  const open = async (address: EmbeddedAddress): Promise<Client> => {
    const client = createClient(address)
    clients.push(client)
    await client.connect()
    return client
  }
  try {
    const first: Pair = { from: await open(source), to: await open(target) }
    const idle = [first]
    while (idle.length < Math.min(maxPairs, availableParallelism())) idle.push({ from: await open(source), to: await open(target) })
    return {
      first,
      close,
      async forEach(items, work) {
        let cause: unknown
        const run = async (item: Parameters<typeof work>[1]) => {
          const pair = idle.pop()!
          try {
            await work(pair, item)
          } catch (error) {
            // The statements of the other pairs, which may take minutes, fail too.
            cause ??= error
            await close()
            throw error
          } finally {
            idle.push(pair)
          }
        }
        await mapConcurrently(items, idle.length, run, signal).catch((error: unknown) => {
          throw cause ?? error
        })
      },
    }
  } catch (error) {
    await close()
    throw error
  }
}

/** Creates a client that searches only pg_catalog for functions, because the application may create functions in its own schema. */
function createClient(address: EmbeddedAddress): Client {
  const options =
    '-c search_path=pg_catalog -c timezone=UTC -c datestyle=ISO,YMD -c intervalstyle=postgres -c extra_float_digits=1 -c bytea_output=hex ' +
    '-c synchronize_seqscans=off'
  const client = new Client({ ...address, ssl: false, database, application_name: 'dms database upgrade', options })
  client.on('error', () => undefined)
  return client
}
