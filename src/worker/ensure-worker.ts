/** Runs jobs in this process while no other worker does. */
import { availableParallelism, hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import type { App } from '../app.ts'
import { isLiveWorker } from '../jobs/leases.ts'
import { hasExited, workerName } from './reap-workers.ts'
import { startWorker, type Worker } from './worker.ts'

const checkIntervalMs = 10_000

/** Time for indexing the extracted text before this process ends. */
const indexTimeoutMs = 10_000

interface EnsuredWorker {
  /** Stops. Indexes finished documents first, unless `atOnce`, and releases documents in progress. */
  stop(atOnce: boolean): Promise<void>
  /** Releases all jobs without waiting, before a forced exit. */
  releaseNow(): Promise<void>
}

/** Ensures until `stop()` that documents are processed: by another worker, or else by this process. `onStart`: this process begins. */
export async function ensureWorker(app: App, onStart: () => void): Promise<EnsuredWorker> {
  let own: { ocr: Worker; index: Worker } | null = null
  const check = async (): Promise<void> => {
    if (own || (await hasActiveWorker(app))) return
    own = await startBoth(app)
    onStart()
  }
  let checking = check()
  const timer = setInterval(() => {
    checking = checking.then(check).catch((error: Error) => app.log.warn({ err: error.message }, 'the queue is out of reach'))
  }, checkIntervalMs)
  const stop = async (atOnce: boolean): Promise<void> => {
    clearInterval(timer)
    await checking.catch(() => {})
    if (!own) return
    await own.ocr.stop(0)
    if (!atOnce) await Promise.race([own.index.idle(), sleep(indexTimeoutMs, undefined, { ref: false })])
    await own.index.stop(0)
  }
  await checking.catch(async (error) => {
    await stop(true)
    throw error
  })
  return {
    stop,
    async releaseNow() {
      clearInterval(timer)
      if (own) await Promise.all([own.ocr.releaseNow(), own.index.releaseNow()])
    },
  }
}

/** Starts two workers, so that indexing can continue after OCR was stopped. */
async function startBoth(app: App) {
  const ocr = await startWorker(app, { queues: ['ocr'], concurrency: app.config.worker.concurrency || availableParallelism() })
  const name = `${workerName(hostname(), process.pid)}/index`
  const index = await startWorker(app, { queues: ['index', 'maintenance'], concurrency: 1, name }).catch(async (error) => {
    await ocr.stop(0)
    throw error
  })
  return { ocr, index }
}

async function hasActiveWorker({ db }: App): Promise<boolean> {
  const rows = await db.selectFrom('workers').select(['name', 'queues']).where(isLiveWorker).execute()
  return rows.some(({ name, queues }) => queues.includes('ocr') && !hasExited(name, hostname()))
}
