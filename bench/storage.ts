/**
 * What does the S3 document store cost? Uploads through it beside bare PUTs of the same bytes to the same server, in turns, 8 at once.
 *
 *   node bench/storage.ts [--files 200] [--rounds 5] [--large 0]
 *
 * --large MB: one more file of this size through the store, with the memory that it takes. Needs the Debian packages of OpenStack Swift.
 */
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import { mapConcurrently } from '../src/concurrency.ts'
import { loadConfig } from '../src/config/load.ts'
import { bytesBody, openBucket } from '../src/files/stores/s3/bucket.ts'
import { openS3Store } from '../src/files/stores/s3/s3.ts'
import { hasS3Server, startS3 } from '../test/support/servers/s3-server.ts'
import { bucketSettings } from '../test/support/servers/s3-settings.ts'
import { median } from './quantile.ts'
import { report } from './report/figure.ts'

const { values } = parseArgs({
  options: {
    files: { type: 'string', default: '200' },
    rounds: { type: 'string', default: '5' },
    large: { type: 'string', default: '0' },
  },
})
const sizes = { '100 kB': 100_000, '1 MB': 1_000_000 }
const concurrency = 8

if (!hasS3Server()) process.exitCode = 1
else await measure()

async function measure(): Promise<void> {
  const server = await startS3()
  const folder = await mkdtemp(join(tmpdir(), 'dms-bench-storage-'))
  const { config } = loadConfig({ env: {}, flags: { data_dir: folder, ...(await bucketSettings(server)) } })
  const store = openS3Store(config, join(folder, 'cache'))
  const bucket = openBucket(config.storage)
  try {
    const table = new Table({ head: ['', 'store, files/s', 'bare PUT, files/s', 'ratio (median of rounds)'] })
    for (const [label, size] of Object.entries(sizes)) {
      const count = Math.max(concurrency, Math.round((Number(values.files) * 100_000) / size))
      const bodies = Array.from({ length: count }, () => randomBytes(size))
      const rates: { store: number; baseline: number }[] = []
      for (let round = 0; round < Number(values.rounds); round++) {
        const baseline = await rateOf(bodies, (bytes, index) =>
          bucket.put(`bare/${round}-${index}`, { ...bytesBody(bytes), sha256: 'UNSIGNED-PAYLOAD' }),
        )
        const stored = await rateOf(bodies, async (bytes) => {
          const staged = await store.stage(pieces(bytes), size)
          await staged.commit()
          await staged.confirm()
        })
        rates.push({ store: stored, baseline })
      }
      const [own, baseline] = [median(rates.map(({ store }) => store)), median(rates.map(({ baseline }) => baseline))]
      const ratio = median(rates.map(({ store, baseline }) => store / baseline))
      table.push([label, own.toFixed(0), baseline.toFixed(0), ratio.toFixed(2)])
      report({ measure: `files of ${label} to S3`, unit: 'files/s', value: own, peers: { 'bare PUT': baseline }, better: 'higher' })
    }
    console.log(table.toString())
    console.log('wanted: at least 0.8 of bare PUTs')
    if (Number(values.large) > 0) await storeLarge(store, Number(values.large) * 1e6)
  } finally {
    await store.close()
    await bucket.close()
    await server.stop()
    await rm(folder, { recursive: true, force: true })
  }
}

async function storeLarge(store: ReturnType<typeof openS3Store>, size: number): Promise<void> {
  const chunk = randomBytes(65_536)
  let peak = 0
  async function* source() {
    for (let sent = 0; sent < size; sent += chunk.length) {
      peak = Math.max(peak, process.memoryUsage.rss())
      yield Buffer.from(chunk)
    }
  }
  const before = process.memoryUsage.rss()
  const startedAt = performance.now()
  const staged = await store.stage(source(), Number.MAX_SAFE_INTEGER)
  const seconds = (performance.now() - startedAt) / 1000
  await staged.discard()
  console.log(
    `${staged.size / 1e6} MB: ${(staged.size / 1e6 / seconds).toFixed(0)} MB/s, memory ${(before / 1e6).toFixed(0)} MB before, at most ${(peak / 1e6).toFixed(0)} MB`,
  )
}

/** Returns files per second. */
async function rateOf(bodies: readonly Buffer[], put: (bytes: Buffer, index: number) => Promise<void>): Promise<number> {
  const startedAt = performance.now()
  await mapConcurrently([...bodies.entries()], concurrency, ([index, bytes]) => put(bytes, index))
  return (bodies.length * 1000) / (performance.now() - startedAt)
}

/** Yields the bytes as a socket would. */
async function* pieces(bytes: Buffer) {
  for (let at = 0; at < bytes.length; at += 65_536) yield bytes.subarray(at, at + 65_536)
}
