/** The files that are wanted pass through here: some are fetched at once, and what came is taken in together. */
import { SourceFailure, type SourceFailureCode } from '../../ports/source-type.ts'
import { type Fetched, fetchOne } from './fetch-file.ts'
import { takeIn } from './ingest.ts'
import { holdMemory } from './release-memory.ts'
import type { Pulling, Want } from './sync-context.ts'

export interface Intake {
  /** Wants files; waits while too many are wanted already. Throws what ended the intake. */
  add(wants: readonly Want[]): Promise<void>
  /** Whether the file is on its way. */
  has(path: string): boolean
  /** Takes in what has come so far; call it now and then. */
  flush(): void
  /** Waits until all that is wanted was taken in. Throws what ended the intake. */
  end(): Promise<void>
  /** Begins nothing new, and waits until what was begun is over. */
  stop(): Promise<void>
}

/** Files that wait to be fetched: the listing, which a server does not like to hold open, runs so far ahead. More of them live long enough to cost memory. */
const maxWaiting = 5000
/** Files that one transaction takes in, and that may wait for it. */
const together = 100
const maxFetched = 200
/** After so many failures in a row, none of them the file's own, the source itself has failed. */
const patience = 5

/** What another try at once will not change: the source waits for its next time. */
const endsSync: readonly string[] = ['SOURCE_UNAUTHORIZED', 'SOURCE_TOO_SLOW']

/** Opens one; `onFetch` hears which file is fetched now. */
export function openIntake(pulling: Pulling, onFetch: (path: string) => void): Intake {
  let waiting: Want[] = []
  let next = 0
  const paths = new Set<string>()
  const fetched: Fetched[] = []
  /** general failures since the last file that came */
  let doubtful: Fetched[] = []
  let running = 0
  let taking: Promise<void> | null = null
  let fatal: { error: unknown } | null = null
  let isStopped = false
  let changed = Promise.withResolvers<void>()
  const passed = holdMemory()

  const change = () => {
    changed.resolve()
    changed = Promise.withResolvers()
  }
  const fail = (error: unknown) => {
    fatal ??= { error }
  }
  const check = () => {
    if (fatal) throw fatal.error
  }

  const one = async (want: Want) => {
    onFetch(want.file.path)
    const file = await fetchOne(pulling, want)
    if (file.outcome === 'failed' && file.isGeneral) {
      doubtful.push(file)
      if (doubtful.length >= patience) throw new SourceFailure(file.code as SourceFailureCode, file.message, !endsSync.includes(file.code))
      return
    }
    fetched.push(...doubtful, file)
    doubtful = []
    if (fetched.length >= together) flush()
  }

  const pump = () => {
    while (!fatal && !isStopped && running < pulling.options.concurrency && next < waiting.length && fetched.length < maxFetched) {
      const want = waiting[next++] as Want
      if (next > 1000) {
        waiting = waiting.slice(next)
        next = 0
      }
      running++
      void one(want)
        .catch(fail)
        .finally(() => {
          running--
          pump()
          change()
        })
    }
  }

  const flush = () => {
    if (taking || fetched.length === 0) return
    taking = (async () => {
      while (!fatal && fetched.length > 0) {
        const some = fetched.splice(0, together)
        await takeIn(pulling, some)
        for (const { want } of some) {
          paths.delete(want.file.path)
          passed()
        }
        pump()
      }
    })()
      .catch(fail)
      .finally(() => {
        taking = null
        change()
      })
  }

  const isIdle = () => running === 0 && next >= waiting.length

  return {
    async add(wants) {
      for (const want of wants) paths.add(want.file.path)
      waiting.push(...wants)
      pump()
      while (!fatal && waiting.length - next > maxWaiting) await changed.promise
      check()
    },
    has: (path) => paths.has(path),
    flush,
    async end() {
      while (!fatal && !isIdle()) {
        flush()
        await changed.promise
      }
      check()
      fetched.push(...doubtful)
      doubtful = []
      flush()
      while (taking) await taking
      check()
    },
    async stop() {
      isStopped = true
      while (running > 0 || taking) await changed.promise
      const left = [...fetched, ...doubtful].flatMap((each) => (each.outcome === 'staged' ? [each.staged] : []))
      await Promise.all(left.map((staged) => staged.discard()))
    },
  }
}
