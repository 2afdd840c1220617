/**
 * How do other engines and the embedded index compare? A part of bench/search.ts: the same documents are indexed by each engine, and the requests of each
 * kind are sent to all of them in turn. Processor time, of dms, PostgreSQL and the engine together, depends less on what else the machine does than time by
 * the clock.
 */
import Table from 'cli-table3'
import { median, quantile } from './quantile.ts'

/** A server of dms with one of the engines. */
export interface Peer {
  readonly name: string
  readonly url: string
  /** Returns the seconds of processor time that dms, PostgreSQL and the engine have used so far. */
  usedTime(): number | Promise<number>
}

export interface PeerOptions {
  /** settings under which the documents were put into the database */
  readonly flags: Readonly<Record<string, string | number | boolean>>
  readonly index: string
  /** The index stays on the server for the next run. */
  readonly keep: boolean
  /** Returns the seconds of processor time that dms and PostgreSQL have used so far. */
  processorTime(): number
}

type Kinds<R> = readonly (readonly [name: string, requests: readonly R[]])[]

/** Prints the times of all peers; `ask` sends a request to the server at `url`. */
export async function comparePeers<R>(
  kinds: Kinds<R>,
  peers: readonly Peer[],
  ask: (url: string, request: R) => Promise<unknown>,
): Promise<void> {
  const table = new Table({
    head: ['in turns', ...peers.flatMap(({ name }) => [`${name} p50`, 'p95', 'processors, ms'])],
    colAligns: ['left', ...peers.flatMap(() => ['right', 'right', 'right'] as const)],
  })
  for (const { url } of peers) for (const [, requests] of kinds) for (const request of requests.slice(0, 3)) await ask(url, request)
  for (const [name, requests] of kinds) {
    const columns: string[] = []
    for (const { url, usedTime } of peers) {
      const times: number[] = []
      const before = await usedTime()
      for (const request of requests) {
        const start = performance.now()
        await ask(url, request)
        times.push(performance.now() - start)
      }
      const each = (((await usedTime()) - before) * 1000) / requests.length
      columns.push(...[median(times), quantile(times, 0.95), each].map((value) => value.toFixed(1)))
    }
    table.push([name, ...columns])
  }
  console.log(table.toString())
}
