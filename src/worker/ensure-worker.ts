/** Whether anybody works, and doing it oneself where nobody does. */
import { availableParallelism, hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import type { App } from '../app.ts'
import { secondsAgo } from '../db/clock.ts'
import { isGone, nameOf } from './reap-workers.ts'
import { startWorker, type Worker } from './worker.ts'

/** A worker without work shows itself every 20 seconds; one that is silent for this long (ms) does not work. */
const silence = 30_000
/** Milliseconds between two looks for one. */
const interval = 10_000

/** What was read may be found: the index is brought up to date before we leave, within this time (ms). */
const indexPatience = 10_000

export interface Presence {
  /** Gives back unharmed what is being read, and works no more; `atOnce` leaves the index to others as well. */
  stop(atOnce: boolean): Promise<void>
  /** Gives all back without waiting for anything: the process has to end now. */
  letGo(): Promise<void>
}

/** Sees to it that documents are read until `stop()`: by whoever does already, else by this process. `onStart` tells of the latter. */
export async function ensureWorker(app: App, onStart: () => void): Promise<Presence> {
  let own: { reading: Worker; indexing: Worker } | null = null
  const look = async (): Promise<void> => {
    if (own || (await isSomebodyWorking(app))) return
    own = await startBoth(app)
    onStart()
  }
  let looking = look()
  const again = setInterval(() => {
    looking = looking.then(look).catch((error: Error) => app.log.warn({ err: error.message }, 'the queue is out of reach'))
  }, interval)
  const stop = async (atOnce: boolean): Promise<void> => {
    clearInterval(again)
    await looking.catch(() => {})
    if (!own) return
    await own.reading.stop(0)
    if (!atOnce) await Promise.race([own.indexing.idle(), sleep(indexPatience, undefined, { ref: false })])
    await own.indexing.stop(0)
  }
  await looking.catch(async (error) => {
    await stop(true)
    throw error
  })
  const letGo = async (): Promise<void> => {
    clearInterval(again)
    if (own) await Promise.all([own.reading.letGo(), own.indexing.letGo()])
  }
  return { stop, letGo }
}

/** Two, so that the one can be stopped while the other ends its work. */
async function startBoth(app: App) {
  const reading = await startWorker(app, { queues: ['ocr'], concurrency: app.config.worker.concurrency || availableParallelism() })
  const name = `${nameOf(hostname(), process.pid)}/index`
  return { reading, indexing: await startWorker(app, { queues: ['index', 'maintenance'], concurrency: 1, name }) }
}

async function isSomebodyWorking({ db }: App): Promise<boolean> {
  const rows = await db
    .selectFrom('workers')
    .select(['name', 'queues'])
    .where('seen_at', '>', secondsAgo(silence / 1000))
    .execute()
  return rows.some(({ name, queues }) => queues.includes('ocr') && !isGone(name, hostname()))
}
