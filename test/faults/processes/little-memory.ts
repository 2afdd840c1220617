/** F36 and F43: many large uploads and downloads at once with little memory, to the disk and to S3. */
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, rmdirSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { basename, join } from 'node:path'
import { peakMemory } from '../../support/processes/process-tree.ts'
import { type Fault, type FaultContext, type FaultResult, needs, needsRoot, needsWritable, openFaultRun } from '../fault.ts'
import type { Installation } from '../installation.ts'
import { needsS3, openS3Store } from '../storage/s3-store.ts'

const groups = '/sys/fs/cgroup/memory'
const limit = 256 << 20
const atOnce = 20
const chunk = randomBytes(1_000_000)

/** Opens the document store. Returns its settings; `list` if its files are not in the data folder. */
type OpenStore = (
  installation: Installation,
) => Promise<{ env?: Record<string, string>; list?: Awaited<ReturnType<typeof openS3Store>>['list'] }>

const needsGroups = needs(needsRoot, needsWritable(join(groups, 'memory.limit_in_bytes')))

export const littleMemory: Fault = {
  id: 'F36',
  name: '256 MB of memory, 20 large uploads and downloads at once',
  skipReason: needsGroups,
  run: (context) => run(context, async () => ({})),
}

export const littleMemoryWithS3: Fault = {
  id: 'F43',
  name: 'the same with the documents in S3',
  skipReason: needs(needsGroups, needsS3),
  // Documents of other faults are on the disk.
  run: async (context) => {
    const installation = await context.openInstallation()
    const result = await run({ ...context, installation }, openBucket)
    await installation.remove()
    return result
  },
}

const openBucket: OpenStore = async (installation) => {
  const { env, list } = await openS3Store(installation)
  return { env: env('s3'), list }
}

async function run({ installation, isShort }: FaultContext, openStore: OpenStore): Promise<FaultResult> {
  const { env = {}, list } = await openStore(installation)
  const megabytes = isShort ? 20 : 100
  const group = join(groups, basename(installation.folder))
  mkdirSync(group)
  installation.atEnd(() => existsSync(group) && rmdirSync(group))
  writeFileSync(join(group, 'memory.limit_in_bytes'), String(limit))
  // Starts the database outside of the memory limit: it survives a killed server.
  await (await installation.start({ env })).kill()
  const server = await installation.start({
    env: { ...env, DMS_WORKER_EMBEDDED: 'false' },
    before: ['sh', '-c', 'echo $$ > "$0" && exec "$@"', join(group, 'cgroup.procs')],
  })
  try {
    const worker = await installation.startWorker({ env })
    const faultRun = await openFaultRun(installation)
    const { ledger, expect, notes, caller } = faultRun
    await Promise.all(Array.from({ length: atOnce }, uploadOne))
    const ids = [...ledger.uploads]
    const sums = await Promise.all(ids.map(([id]) => sumOf(`/api/documents/${id}/download`)))
    expect(
      ids.every(([, { sha256 }], index) => sums[index] === sha256),
      'downloads at once came back otherwise',
    )
    expect(ids.length === atOnce, `${ids.length} of ${atOnce} uploads were taken`)
    expect(server.isRunning(), 'the server ended')
    notes.push(`peak of the server ${(peakMemory(server.pid) / 1e6).toFixed(0)} MB`)
    const result = await faultRun.finish(`${atOnce} × ${megabytes} MB up and down`, { timeoutMs: 120_000, ...(list && { list }) })
    await worker.kill()
    return result

    async function uploadOne(): Promise<void> {
      const hash = createHash('sha256')
      const boundary = 'much'
      const sending = request(new URL('/api/documents/upload', installation.url), {
        method: 'POST',
        headers: { authorization: `Bearer ${caller.token()}`, 'content-type': `multipart/form-data; boundary=${boundary}` },
      })
      const answered = once(sending, 'response')
      sending.write(`--${boundary}\r\ncontent-disposition: form-data; name="file"; filename="much.bin"\r\n\r\n`)
      const own = randomBytes(16)
      for (let at = 0; at < megabytes; at++) {
        const piece = at === 0 ? Buffer.concat([own, chunk]).subarray(0, chunk.length) : chunk
        hash.update(piece)
        if (!sending.write(piece)) await once(sending, 'drain')
      }
      sending.end(`\r\n--${boundary}--\r\n`)
      const [response] = await answered
      let text = ''
      for await (const piece of response.setEncoding('utf8')) text += piece
      ledger.record('upload', response.statusCode, 0, response.headers['retry-after'] ?? null)
      if (response.statusCode !== 201) return
      ledger.acknowledged++
      ledger.uploads.set((JSON.parse(text) as { id: string }).id, {
        sha256: hash.digest('hex'),
        size: megabytes * chunk.length,
        word: null,
      })
    }

    async function sumOf(path: string): Promise<string> {
      const response = await fetch(new URL(path, installation.url), { headers: { authorization: `Bearer ${caller.token()}` } })
      const hash = createHash('sha256')
      for await (const piece of response.body ?? []) hash.update(piece)
      return hash.digest('hex')
    }
  } finally {
    await server.kill()
    rmdirSync(group)
  }
}
