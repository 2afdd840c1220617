/** Upload of many files. Known content is not sent again, and small files share requests. */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import type { Client } from '../../client/client.ts'
import type { DocumentView } from '../../documents/view.ts'
import type { Batch, BatchItem } from '../output/batch-output.ts'
import type { Cli } from '../runtime/context.ts'
import { type RunItem, runBatch, toItemError } from '../runtime/run-batch.ts'
import { waitForDocuments } from '../runtime/wait.ts'
import type { AfterUpload } from './after-upload.ts'
import type { FoundFile } from './find-files.ts'
import { type KnownDocuments, planRequests, smallFileBytes, type UploadRequest } from './plan-requests.ts'
import { type SendOptions, type SentFile, sendFile, sendFiles } from './send.ts'
import type { UploadCache } from './upload-cache.ts'

export interface UploadRun extends Omit<SendOptions, 'client'> {
  /** command words */
  readonly command: string
  readonly concurrency: number
  /** look up content before it is sent */
  readonly shouldSkipKnown: boolean
  readonly cache: UploadCache | null
  readonly afterUpload: AfterUpload
  /** skips files that changed within this time */
  readonly minAgeMs: number
  /** wait for OCR */
  readonly shouldWait: boolean
  /** output of an endless command */
  readonly batch?: Batch
}

interface RunContext extends UploadRun {
  readonly cli: Cli
  readonly sendOptions: SendOptions
  /** true over a network, where requests and bytes are slow */
  readonly isRemote: boolean
  /** items that are added after OCR of their documents */
  readonly waitingItems: BatchItem[]
}

/** Uploads files and prints results and summary. `client` null: dry run. Throws errors that end the batch. */
export async function uploadFiles(cli: Cli, client: Client | null, files: readonly FoundFile[], how: UploadRun): Promise<void> {
  const isRemote = cli.target.url !== null
  // A retried request must not create a document twice: requests are shared only if known content is skipped.
  const groups = planRequests(files, isRemote && client !== null && how.shouldSkipKnown && how.options.title === undefined)
  const waitingItems: BatchItem[] = []
  const run = client ? { ...how, cli, isRemote, waitingItems, sendOptions: { ...how, client } } : null
  await runBatch(cli, {
    command: how.command,
    phase: 'upload',
    items: groups,
    total: files.length,
    keyOf: ({ files: [first] }) => first?.path ?? '',
    concurrency: how.concurrency,
    isDryRun: client === null,
    totalBytes: files.some(({ path }) => path === '-') ? null : files.reduce((sum, { size }) => sum + (size ?? 0), 0),
    ...(how.batch ? { batch: how.batch } : {}),
    runGroup: (group, each, onBytes) => (run ? sendRequest(run, group, each, onBytes) : listRequest(how, group, each)),
    async finish(add, isReachable) {
      if (run && isReachable && waitingItems.length > 0) await addAfterWait(run, add)
      else for (const item of waitingItems) add(item)
    },
  })
}

async function listRequest(how: UploadRun, { files }: UploadRequest, each: RunItem): Promise<void> {
  for (const file of files) {
    await each(file.path, async () => {
      if (file.error) throw file.error
      return skipRecent(how, file) ?? { action: 'created', key: file.path, bytes: file.size ?? 0 }
    })
  }
}

async function sendRequest(run: RunContext, group: UploadRequest, each: RunItem, onBytes: (bytes: number) => void): Promise<void> {
  group.window.known ??= findKnown(run, group.window.files)
  const { sums, ids } = await group.window.known
  const rest: FoundFile[] = []
  for (const file of group.files) {
    const sum = sums.get(file.path)
    const id = sum && ids.get(sum)
    const young = skipRecent(run, file)
    if (!file.error && !young && !id) rest.push(file)
    else if (
      !(await each(file.path, async () => {
        if (file.error) throw file.error
        if (young || !id || !sum) return young
        onBytes(file.size ?? 0)
        return toItem(run, file, { id, sha256: sum, created: false, bytes: file.size ?? 0 })
      }))
    )
      return
  }
  if (rest.length > 1 && (await sendTogether(run, rest, each, onBytes))) return
  for (const file of rest) {
    const isGoingOn = await each(file.path, async (onFileBytes) => toItem(run, file, await sendFile(run.sendOptions, file, onFileBytes)))
    if (!isGoingOn) return
  }
}

/** Sends one request. Returns false if the server rejects it as a whole; then each file is sent alone and gets its own error. */
async function sendTogether(
  run: RunContext,
  files: readonly FoundFile[],
  each: RunItem,
  onBytes: (bytes: number) => void,
): Promise<boolean> {
  let results: (() => SentFile)[]
  try {
    results = await sendFiles(run.sendOptions, files, onBytes)
  } catch (error) {
    const { status, code } = error as { status?: unknown; code?: unknown }
    // Rejected, or one file is unreadable: sending them one by one finds out which.
    if (status === 400 || status === 413 || (status === undefined && ['ENOENT', 'EACCES', 'EIO', 'EISDIR'].includes(String(code))))
      return false
    throw error
  }
  for (const [index, file] of files.entries()) await each(file.path, async () => toItem(run, file, (results[index] as () => SentFile)()))
  return true
}

/** Records an uploaded file and returns its item; null with `shouldWait`. */
async function toItem(run: RunContext, file: FoundFile, { id, created, sha256, bytes }: SentFile): Promise<BatchItem | null> {
  if (file.path !== '-') {
    await run.cache?.add(file, sha256, id)
    await run.afterUpload.apply(file)
  }
  const item: BatchItem = { action: created ? 'created' : 'unchanged', key: file.path, id, bytes }
  if (!run.shouldWait) return item
  run.waitingItems.push(item)
  return null
}

function skipRecent({ minAgeMs: minAge }: UploadRun, { path, mtimeNs }: FoundFile): BatchItem | null {
  const age = Date.now() - Number(BigInt(mtimeNs) / 1_000_000n)
  if (minAge === 0 || path === '-' || age >= minAge) return null
  return { action: 'skipped', key: path, reason: `changed less than ${minAge / 1000} s ago` }
}

/** Looks up known content. Remote: hashes all files, unless they are few and small. Local: looks up cached checksums only. */
async function findKnown(run: RunContext, files: readonly FoundFile[]): Promise<KnownDocuments> {
  const sums = new Map<string, string>()
  if (!run.shouldSkipKnown || run.cli.options.printCurl) return { sums, ids: new Map() }
  const isWorthIt = run.isRemote && (files.length > 10 || files.some(({ size }) => (size ?? 0) >= smallFileBytes))
  for (const file of files) {
    if (run.cli.signal.aborted) break
    if (file.path === '-' || file.error || skipRecent(run, file)) continue
    const sum = run.cache?.getSha256(file) ?? (isWorthIt ? await hashFile(file) : undefined)
    if (sum !== undefined) sums.set(file.path, sum)
  }
  const { client, options } = run.sendOptions
  const ids =
    sums.size === 0 ? new Map<string, string>() : await client.documents.known([...new Set(sums.values())], { owner: options.owner })
  return { sums, ids }
}

/** Returns undefined for an unreadable file: sending it reports the error. */
async function hashFile({ path }: FoundFile): Promise<string | undefined> {
  const hash = createHash('sha256')
  try {
    for await (const chunk of createReadStream(path, { highWaterMark: 1 << 18 })) hash.update(chunk)
    return hash.digest('hex')
  } catch {
    return undefined
  }
}

/** Adds each item after OCR of its document, and the others as pending when the command is stopped. */
async function addAfterWait({ cli, sendOptions, waitingItems }: RunContext, add: (item: BatchItem) => void): Promise<void> {
  const waiting = new Map(Map.groupBy(waitingItems, ({ id }) => id as string))
  try {
    await waitForDocuments(cli, sendOptions.client, [...waiting.keys()], (id, document) => {
      for (const item of waiting.get(id) ?? []) add({ ...item, ...waitOutcome(document) })
      waiting.delete(id)
    })
  } finally {
    for (const item of [...waiting.values()].flat()) add({ ...item, status: 'pending' })
  }
}

function waitOutcome(document: DocumentView | null): Partial<BatchItem> {
  if (!document)
    return { action: 'failed', error: toItemError(Object.assign(new Error('it was deleted meanwhile'), { code: 'DOCUMENT_NOT_FOUND' })) }
  const { status, error } = document
  return status === 'failed' ? { action: 'failed', status, ...(error ? { error } : {}) } : { status }
}
