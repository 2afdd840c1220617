/** Whether anybody works, and doing it oneself where nobody does. */
import { availableParallelism, hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import type { App } from '../app.ts'
import { secondsAgo } from '../db/clock.ts'
import { hasExited, workerName } from './reap-workers.ts'
import { startWorker, type Worker } from './worker.ts'

/** A worker without work shows itself every 20 seconds; one that is silent for this long (ms) does not work. */
const silenceTimeoutMs = 30_000
/** Milliseconds between two looks for one. */
const checkIntervalMs = 10_000

/** What was read may be found: the index is brought up to date before we leave, within this time (ms). */
const indexTimeoutMs = 10_000

export interface EnsuredWorker {
  /** Gives back unharmed what is being read, and works no more; `atOnce` leaves the index to others as well. */
  stop(atOnce: boolean): Promise<void>
  /** Gives all back without waiting for anything: the process has to end now. */
  releaseNow(): Promise<void>
}

/** Sees to it that documents are read until `stop()`: by whoever does already, else by this process. `onStart` tells of the latter. */
export async function ensureWorker(app: App, onStart: () => void): Promise<EnsuredWorker> {
  let own: { reading: Worker; indexing: Worker } | null = null
  const check = async (): Promise<void> => {
    if (own || (await hasActiveWorker(app))) return
    own = await startBoth(app)
    onStart()
  }
  let checking = check()
  const again = setInterval(() => {
    checking = checking.then(check).catch((error: Error) => app.log.warn({ err: error.message }, 'the queue is out of reach'))
  }, checkIntervalMs)
  const stop = async (atOnce: boolean): Promise<void> => {
    clearInterval(again)
    await checking.catch(() => {})
    if (!own) return
    await own.reading.stop(0)
    if (!atOnce) await Promise.race([own.indexing.idle(), sleep(indexTimeoutMs, undefined, { ref: false })])
    await own.indexing.stop(0)
  }
  await checking.catch(async (error) => {
    await stop(true)
    throw error
  })
  const letGo = async (): Promise<void> => {
    clearInterval(again)
    if (own) await Promise.all([own.reading.releaseNow(), own.indexing.releaseNow()])
  }
  return { stop, releaseNow: letGo }
}

/** Two, so that the one can be stopped while the other ends its work. */
async function startBoth(app: App) {
  const reading = await startWorker(app, { queues: ['ocr'], concurrency: app.config.worker.concurrency || availableParallelism() })
  const name = `${workerName(hostname(), process.pid)}/index`
  return { reading, indexing: await startWorker(app, { queues: ['index', 'maintenance'], concurrency: 1, name }) }
}

async function hasActiveWorker({ db }: App): Promise<boolean> {
  const rows = await db
    .selectFrom('workers')
    .select(['name', 'queues'])
    .where('seen_at', '>', secondsAgo(silenceTimeoutMs / 1000))
    .execute()
  return rows.some(({ name, queues }) => queues.includes('ocr') && !hasExited(name, hostname()))
}
