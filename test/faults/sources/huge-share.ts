/** F22: a share with folders of many files, deep folders, and files above the size limit. */

import { processTree } from '../../support/processes/process-tree.ts'
import { type HugeShareSize, openHugeShare } from '../../support/servers/huge-share.ts'
import { type Fault, type FaultContext, type FaultResult, openFaultRun } from '../fault.ts'
import { createSource, type SyncState } from './synced-source.ts'

const whole: HugeShareSize = { flat: 100_000, folders: 4, entriesPerFolder: 5000, levels: 200, bigBytes: 10_000_000_000, textEvery: 10 }
const short: HugeShareSize = { flat: 2000, folders: 1, entriesPerFolder: 500, levels: 50, bigBytes: 10_000_000_000, textEvery: 20 }

const maxFileBytes = { whole: 100_000_000, short: 8_000_000 }
/** maximum milliseconds from the request to the end of all work of the sync; in the short form other faults run too */
const maxCancelMs = { whole: 5000, short: 20_000 }
/** maximum growth of the processes' memory in bytes, compared with a sync of a few files */
const maxGrowthBytes = 300_000_000
const timeoutMs = 900_000

export const hugeShare: Fault = { id: 'F22', name: 'a share of very many files, levels and bytes', isLong: true, run }

async function run({ installation: shared, isShort, openInstallation }: FaultContext): Promise<FaultResult> {
  // A separate installation: so many documents would slow every later audit.
  const installation = isShort ? shared : await openInstallation()
  const size = isShort ? short : whole
  const maxBytes = isShort ? maxFileBytes.short : maxFileBytes.whole
  const server = await installation.start({ env: { DMS_OCR_ENABLED: 'false', DMS_SOURCES_MAX_FILE_SIZE: `${maxBytes}` } })
  const faultRun = await openFaultRun(installation)
  const { caller, expect, notes } = faultRun
  const share = await openHugeShare(size)
  installation.atEnd(() => share.close())
  const memory = watchMemory(server.pid)

  const deep = await createSource(caller, { name: 'deep', url: `${share.url}deep/` }, timeoutMs)
  const ofDeep = await deep.sync()
  expect(isClean(ofDeep) && ofDeep?.created === size.levels, `deep folders: ${describe(ofDeep)}, and not ${size.levels} created`)
  // Counts reader processes in both measurements; their memory does not depend on the number of texts.
  expect(await deep.until(() => deep.isRead()), 'the texts of the deep folders were not read')
  const before = memory.takePeak()

  const entries = size.flat + size.folders * size.entriesPerFolder
  const expected = Math.ceil(size.flat / size.textEvery) + size.folders * Math.ceil(size.entriesPerFolder / size.textEvery)
  const huge = await createSource(caller, { name: 'huge', url: `${share.url}huge/`, file_patterns: ['**/*.txt'] }, timeoutMs)

  // A slow share keeps the sync in the middle of its downloads until it is cancelled.
  share.delayFiles(isShort ? 1000 : 100)
  await huge.start()
  expect(await huge.until(async () => (await huge.syncState()).created > 0), 'no file came')
  const cancelled = performance.now()
  const { status } = await huge.cancel()
  expect(status === 200, `cancel: ${status}`)
  expect(await huge.until(async () => (await huge.get()).status !== 'syncing', 20), 'the cancelled sync never ended')
  const cancelMs = performance.now() - cancelled
  expect(cancelMs <= (isShort ? maxCancelMs.short : maxCancelMs.whole), `the cancelled sync went on for ${Math.round(cancelMs)} ms`)
  const { state, created } = await huge.syncState()
  expect(
    state === 'cancelled' && created < expected,
    `the sync was to be cancelled in its middle: ${state}, ${created} of ${expected} files created`,
  )
  const requests = share.requests()
  await new Promise((resolve) => setTimeout(resolve, 500))
  expect(share.requests() === requests, `${share.requests() - requests} requests after the sync was cancelled`)

  share.delayFiles(0)
  const first = await huge.sync()
  const isTooLarge = (done: SyncState | null) =>
    done?.state === 'completed' &&
    done.errors.length === 2 &&
    done.errors.every(({ path, code }) => path.startsWith('big/') && code === 'FILE_TOO_LARGE')
  expect(isTooLarge(first), `the sync after that: ${describe(first)}`)
  const { document_count } = await huge.get()
  expect(document_count === expected && first?.removed === 0, `${document_count} documents of ${expected} files; ${describe(first)}`)
  const downloads = share.downloads()
  const again = await huge.sync()
  expect(isTooLarge(again), `an unchanged share: ${describe(again)}`)
  expect(
    again?.created === 0 && again.updated === 0 && again.bytes === 0 && again.removed === 0,
    `an unchanged share: ${describe(again)}, ${again?.bytes} bytes`,
  )
  // The size of one of the large files is known only during its download.
  expect(share.downloads() - downloads === 1, `an unchanged share: ${share.downloads() - downloads} files fetched`)

  const peak = memory.takePeak()
  memory.stop()
  const growth = peak - before
  expect(growth <= maxGrowthBytes, `the processes grew by ${inMegabytes(growth)} MB`)
  notes.push(
    `cancelled in ${Math.round(cancelMs)} ms`,
    `peak of all processes ${inMegabytes(peak)} MB, ${inMegabytes(growth)} MB more than for ${size.levels} files`,
    `${rateOf(first, expected - created)} files/s fetched`,
    `${rateOf(again, entries)} entries/s listed again`,
  )
  const told = await faultRun.finish(`${entries} entries, ${size.levels} levels, 2 × 10 GB`, { timeoutMs: isShort ? 60_000 : timeoutMs })
  await server.kill()
  if (installation !== shared) await installation.remove()
  return told
}

const isClean = (done: SyncState | null) =>
  done?.state === 'completed' && done.failed === 0 && done.removed === 0 && done.errors.length === 0

const describe = (done: SyncState | null) =>
  done
    ? `${done.state} ${done.error?.code ?? ''}, ${done.created} created, ${done.updated} updated, ${done.failed} failed, ${done.removed} removed, errors ${JSON.stringify(done.errors.slice(0, 3))}`
    : 'not over in time'

function rateOf(done: SyncState | null, count: number): number {
  const seconds = (Date.parse(done?.finished_at ?? '') - Date.parse(done?.started_at ?? '')) / 1000
  return Math.round(count / seconds)
}

const inMegabytes = (bytes: number) => Math.round(bytes / 1_000_000)

/** Samples the resident memory of a process and its children, without PostgreSQL. */
function watchMemory(pid: number) {
  let peak = 0
  const sample = () => {
    const own = processTree(pid).filter(({ command }) => !/postgres/.test(command.split(' ')[0] ?? ''))
    peak = Math.max(
      peak,
      own.reduce((sum, { resident }) => sum + resident, 0),
    )
  }
  const timer = setInterval(sample, 250)
  return {
    /** Returns the peak in bytes since the last call. */
    takePeak() {
      sample()
      const most = peak
      peak = 0
      return most
    },
    stop: () => clearInterval(timer),
  }
}
