/**
 * How fast do small files move from the folder to S3 and back, while documents are uploaded and downloaded? Every document is downloaded and compared
 * after each move. No worker runs.
 *
 *   node bench/storage-migrate.ts [--files 2000] [--bytes 2000]
 *
 * Needs the Debian packages of OpenStack Swift.
 */
import { loadavg } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import { mapConcurrently } from '../src/concurrency.ts'
import { openCaller, sha256Of } from '../test/faults/caller.ts'
import { openInstallation } from '../test/faults/installation.ts'
import { openLedger } from '../test/faults/ledger.ts'
import { run } from '../test/support/processes/run.ts'
import { hasS3Server, startS3 } from '../test/support/servers/s3-server.ts'
import { bucketSettings } from '../test/support/servers/s3-settings.ts'
import { median, quantile } from './quantile.ts'
import { report } from './report/figure.ts'

const { values } = parseArgs({ options: { files: { type: 'string', default: '2000' }, bytes: { type: 'string', default: '2000' } } })
const files = Number(values.files)
const bytes = Number(values.bytes)
const concurrency = 8
/** Pause of a client between two requests during a move. */
const pauseMs = 50
const migrationTimeoutMs = 3600_000

if (!hasS3Server()) process.exitCode = 1
else await measure()

async function measure(): Promise<void> {
  const s3 = await startS3()
  const place = await openInstallation()
  const env = Object.fromEntries(
    Object.entries(await bucketSettings(s3)).map(([key, value]) => [
      `DMS_${key.replace('storage.s3_', 's3_').replace('.', '_').toUpperCase()}`,
      String(value),
    ]),
  )
  const envOf = (kind: string) => ({ ...env, DMS_STORAGE_KIND: kind, DMS_STORAGE_MIN_FREE: '0', DMS_WORKER_EMBEDDED: 'false' })
  try {
    let server = await place.start({ env: envOf('disk') })
    const ledger = openLedger()
    const caller = await openCaller(place.url, ledger, { timeoutMs: 60_000 })
    await mapConcurrently(Array(files).keys(), concurrency, async () => void (await caller.uploadBytes(bytes)))
    const table = new Table({ head: ['to', 'files', 'seconds', 'files/s', 'uploads', 'downloads', 'p50 ms', 'p95 ms', 'lost'] })
    for (const to of ['s3', 'disk']) {
      await server.stop()
      server = await place.start({ env: envOf(to) })
      const ids = [...ledger.uploads.keys()]
      const before = ids.length
      const stop = new AbortController()
      const times: number[] = []
      let lost = 0
      const download = async (id: string): Promise<number> => {
        const { status, body, seconds } = await caller.download(id)
        if (status !== 200 || sha256Of(body) !== ledger.uploads.get(id)?.sha256) lost++
        return seconds * 1000
      }
      const uploadOne = async () => {
        const { id } = await caller.uploadBytes(bytes)
        return id === null ? [] : [id]
      }
      const client = async () => {
        for (let turn = 0; !stop.signal.aborted; turn++) {
          if (turn % 4 === 0) ids.push(...(await uploadOne()))
          else times.push(await download(ids[Math.floor(Math.random() * ids.length)] ?? ''))
          await sleep(pauseMs)
        }
      }
      const clients = [client(), client()]
      const startedAt = performance.now()
      const { code, stdout, stderr } = await run(['storage', 'migrate', '--to', to, '--json', '--data-dir', place.dataDir], {
        env: envOf(to),
        timeout: migrationTimeoutMs,
      })
      const seconds = (performance.now() - startedAt) / 1000
      stop.abort()
      await Promise.all(clients)
      if (code !== 0) throw new Error(`storage migrate --to ${to} ended with ${code}: ${stderr}`)
      const moved = (JSON.parse(stdout) as { moved: number }).moved
      await mapConcurrently(ledger.uploads.keys(), concurrency, async (id) => void (await download(id)))
      const [p50, p95] = [median(times), quantile(times, 0.95)]
      const uploads = ledger.uploads.size - before
      table.push([to, moved, seconds.toFixed(1), (moved / seconds).toFixed(1), uploads, times.length, p50.toFixed(1), p95.toFixed(1), lost])
      report({ measure: `files of ${bytes} bytes to ${to}`, unit: 'files/s', value: moved / seconds, better: 'higher' })
      report({ measure: `download while files move to ${to}`, unit: 'ms', value: p50, p95, better: 'lower' })
      if (lost > 0) process.exitCode = 1
    }
    await server.stop()
    console.log(table.toString())
    console.log(
      `${ledger.uploads.size} documents at the end; all were downloaded and compared after each move; load ${loadavg()[0]?.toFixed(1)}`,
    )
  } finally {
    await place.remove()
    await s3.stop()
  }
}
