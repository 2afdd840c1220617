/** Upload of many files. Known content is not sent again, and small files share requests. */
import { accessSync, constants } from 'node:fs'
import type { Client } from '../../client/client.ts'
import type { DocumentView } from '../../documents/view.ts'
import { AppError, formatFileError, invalid } from '../../errors.ts'
import { describeMissingAdmin } from '../arguments/users.ts'
import type { Batch, BatchItem } from '../output/batch-output.ts'
import type { Cli } from '../runtime/context.ts'
import { exitOf, Failure, isExpectedExit } from '../runtime/exit.ts'
import { type RunItem, runBatch, toItemError } from '../runtime/run-batch.ts'
import { waitForDocuments } from '../runtime/wait.ts'
import type { AfterUpload } from './after-upload.ts'
import type { FoundFile } from './find-files.ts'
import { type KnownDocuments, planRequests, smallFileBytes, type UploadRequest } from './plan-requests.ts'
import { delayed, type SendOptions, type SentFile, sendFile, sendFiles } from './send.ts'
import { noteIgnoredFlags } from './unchanged.ts'
import { hashFoundFile, type UploadCache } from './upload-cache.ts'

/** Number of small files for which a remote server is not asked whether it has them. */
const maxUnhashedFiles = 10

export interface UploadRun extends Omit<SendOptions, 'client'> {
  /** command words */
  readonly command: string
  readonly concurrency: number
  /** send nothing */
  readonly isDryRun?: boolean
  /** look up content before it is sent */
  readonly shouldSkipKnown: boolean
  readonly cache: UploadCache | null
  readonly afterUpload: AfterUpload
  /** skips files that changed within this time */
  readonly minAgeMs: number
  /** wait for OCR and indexing */
  readonly shouldWait: boolean
  /** output of an endless command */
  readonly batch?: Batch
}

interface RunContext extends UploadRun {
  readonly cli: Cli
  readonly sendOptions: SendOptions
  /** the server is remote: requests and bytes are slow */
  readonly isRemote: boolean
  /** items to add as soon as search finds their documents */
  readonly waitingItems: BatchItem[]
  /** checksums of a dry run: the second file with the same content is not sent */
  readonly dryRunSums: Set<string>
  /** number of files whose content is stored already */
  readonly unchanged: { count: number }
  /** requests the maximum size of a file once */
  findMaxBytes(): Promise<number>
}

/** Uploads files and prints results and summary. Throws errors that end the batch. */
export async function uploadFiles(cli: Cli, client: Client, files: readonly FoundFile[], options: UploadRun): Promise<void> {
  const isRemote = cli.target.url !== null
  // A retried request must not create a document twice: requests are shared only if known content is skipped.
  const isShared = !options.isDryRun && options.shouldSkipKnown && options.options.title === undefined
  const waitingItems: BatchItem[] = []
  const dryRunSums = new Set<string>()
  let maxBytes: Promise<number> | undefined
  const findMaxBytes = (): Promise<number> => {
    maxBytes ??= client.documents.maxUploadSize({ owner: options.options.owner }).then((size) => size ?? Number.POSITIVE_INFINITY)
    return maxBytes
  }
  const { delayedSignal, forget } = delayed(cli.signal)
  const run: RunContext = {
    ...options,
    cli,
    isRemote,
    waitingItems,
    dryRunSums,
    unchanged: { count: 0 },
    findMaxBytes,
    sendOptions: { ...options, client, signal: delayedSignal },
  }
  await runBatch(cli, {
    command: options.command,
    phase: 'upload',
    items: planRequests(files, { isShared }),
    total: files.length,
    keyOf: ({ files: [first] }) => first?.path ?? '',
    concurrency: options.concurrency,
    isDryRun: options.isDryRun,
    totalBytes: files.some(({ path }) => path === '-') ? null : files.reduce((sum, { size }) => sum + (size ?? 0), 0),
    batch: options.batch,
    runGroup: (request, runItem, onBytes) => (options.isDryRun ? simulateRequest : sendRequest)(run, request, runItem, onBytes),
    async finish(add, isReachable) {
      if (isReachable && waitingItems.length > 0) await addAfterWait(run, add)
      else for (const item of waitingItems) add(item)
    },
  }).finally(forget)
  noteIgnoredFlags(cli, options.options, run.unchanged.count)
}

/** Looks up the files and reports what an upload would do. */
async function simulateRequest(run: RunContext, request: UploadRequest, runItem: RunItem, onBytes: (bytes: number) => void): Promise<void> {
  request.window.known ??= lookUp(run, request.window.files)
  const { sums, ids, maxBytes } = await request.window.known
  for (const file of request.files) {
    const canContinue = await runItem(file.path, async () => {
      const problem = problemOf(file, maxBytes)
      if (problem) throw problem
      if (file.size === 0) throw invalid('file', 'the file is empty')
      if (file.path !== '-') accessSync(file.path, constants.R_OK)
      const sha256 = sums.get(file.path)
      const id = sha256 && ids.get(sha256)
      const isRepeated = sha256 !== undefined && run.dryRunSums.has(sha256)
      if (sha256 !== undefined) run.dryRunSums.add(sha256)
      onBytes(file.size ?? 0)
      const action = id || isRepeated ? 'unchanged' : 'created'
      if (action === 'unchanged') run.unchanged.count++
      return skipRecent(run, file) ?? { action, key: file.path, ...(id ? { id } : {}), bytes: file.size ?? 0 }
    })
    if (!canContinue) return
  }
}

async function sendRequest(run: RunContext, request: UploadRequest, runItem: RunItem, onBytes: (bytes: number) => void): Promise<void> {
  request.window.known ??= lookUp(run, request.window.files)
  const { sums, ids, maxBytes } = await request.window.known
  const unknown: FoundFile[] = []
  for (const file of request.files) {
    const sha256 = sums.get(file.path)
    const id = sha256 && ids.get(sha256)
    const skipped = skipRecent(run, file)
    const problem = problemOf(file, maxBytes)
    if (!problem && !skipped && !id) {
      unknown.push(file)
      continue
    }
    const canContinue = await runItem(file.path, async () => {
      if (problem) throw problem
      if (skipped || !id || !sha256) return skipped
      onBytes(file.size ?? 0)
      return toItem(run, file, { id, sha256, created: false, bytes: file.size ?? 0 })
    })
    if (!canContinue) return
  }
  if (unknown.length > 1 && (await sendTogether(run, unknown, runItem, onBytes))) return
  for (const file of unknown) {
    if (!(await runItem(file.path, async (onFileBytes) => toItem(run, file, await sendFile(run.sendOptions, file, onFileBytes))))) return
  }
}

/**
 * Sends one request. Returns false if it fails as a whole, such as for one file that has changed. The caller then sends each file alone, which gives each
 * its own error. Throws errors that concern all files.
 */
async function sendTogether(
  run: RunContext,
  files: readonly FoundFile[],
  runItem: RunItem,
  onBytes: (bytes: number) => void,
): Promise<boolean> {
  let results: (() => SentFile)[]
  try {
    results = await sendFiles(run.sendOptions, files, onBytes)
  } catch (error) {
    // Nothing new may start, such as a request for each file. The next run sends them.
    run.cli.signal.throwIfAborted()
    if (isExpectedExit(error) || ['AUTH', 'UNAVAILABLE'].includes(exitOf(error))) throw error
    return false
  }
  for (const [index, file] of files.entries()) await runItem(file.path, async () => toItem(run, file, (results[index] as () => SentFile)()))
  return true
}

/** Records an uploaded file and returns its item; null if the item waits for the extraction (`shouldWait`). */
async function toItem(run: RunContext, file: FoundFile, { id, created, sha256, bytes }: SentFile): Promise<BatchItem | null> {
  if (file.path !== '-') {
    await run.cache?.add(file, sha256, id)
    await run.afterUpload.apply(file, sha256).catch((error) => Promise.reject(describeKept(error, id)))
  }
  if (!created) run.unchanged.count++
  const item: BatchItem = { action: created ? 'created' : 'unchanged', key: file.path, id, bytes }
  if (!run.shouldWait) return item
  run.waitingItems.push(item)
  return null
}

/** Returns the error for a file that could not be deleted or moved after its upload. It names the document, so that nobody uploads the file again. */
function describeKept(error: NodeJS.ErrnoException, id: string): Error {
  if (error instanceof Failure) return error
  const message = `uploaded as ${id}, but the file could not be deleted or moved: ${formatFileError(error.message)}`
  return new Failure('FAILED', message, { code: error.code ?? 'FAILED', cause: error })
}

/** Returns why the file cannot be uploaded, else undefined. */
const problemOf = ({ error, size }: FoundFile, maxBytes: number): Error | undefined =>
  error ?? ((size ?? 0) > maxBytes ? new AppError('PAYLOAD_TOO_LARGE', { max_bytes: maxBytes }) : undefined)

/** Returns the item of a file that changed too recently, else null. */
function skipRecent({ minAgeMs }: UploadRun, { path, changedMs }: FoundFile): BatchItem | null {
  const ageMs = Date.now() - changedMs
  if (minAgeMs === 0 || path === '-' || ageMs >= minAgeMs) return null
  return { action: 'skipped', key: path, reason: `changed less than ${minAgeMs / 1000} s ago` }
}

const lookUp = (run: RunContext, files: readonly FoundFile[]): Promise<KnownDocuments> =>
  findKnown(run, files).catch((error) => Promise.reject(describeMissingAdmin(error, run.options.owner)))

/**
 * Finds the files whose content the owner already has. Hashes them in a dry run, and for a remote server unless they are few and small. Otherwise
 * uses cached checksums only. Files that are deleted or moved after their upload are always sent: the server compares their bytes with the stored
 * ones, which may be lost.
 */
async function findKnown(run: RunContext, files: readonly FoundFile[]): Promise<KnownDocuments> {
  const sums = new Map<string, string>()
  const hasLarge = files.some(({ size }) => (size ?? 0) >= smallFileBytes)
  // A file that the server would refuse as too large is not read.
  const shouldFindMax = !run.cli.options.printCurl && (run.isDryRun || (run.isRemote && hasLarge))
  const maxBytes = shouldFindMax ? await run.findMaxBytes() : Number.POSITIVE_INFINITY
  const canSkip = run.shouldSkipKnown && (run.isDryRun || run.afterUpload.isKept)
  if (!canSkip || run.cli.options.printCurl) return { sums, ids: new Map(), maxBytes }
  const shouldHash = run.isDryRun || (run.isRemote && (hasLarge || files.length > maxUnhashedFiles))
  for (const file of files) {
    if (run.cli.signal.aborted) break
    if (file.path === '-' || problemOf(file, maxBytes) || skipRecent(run, file)) continue
    const sha256 = run.cache?.getSha256(file) ?? (shouldHash ? await hashFoundFile(file, run.sendOptions.signal) : undefined)
    if (sha256 !== undefined) sums.set(file.path, sha256)
  }
  if (sums.size === 0) return { sums, ids: new Map(), maxBytes }
  const { client, options } = run.sendOptions
  return { sums, ids: await client.documents.known([...new Set(sums.values())], { owner: options.owner }), maxBytes }
}

/** Adds each item as soon as search finds its document. Adds the other items as pending when the command is stopped. */
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
    return {
      action: 'failed',
      error: toItemError(Object.assign(new Error('the document was deleted during OCR'), { code: 'DOCUMENT_NOT_FOUND' })),
    }
  const { status, error } = document
  return status === 'failed' ? { action: 'failed', status, error: error ?? undefined } : { status }
}
