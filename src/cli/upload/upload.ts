/** Uploading many files: what is there already is not sent, small files share requests, and what was learned is noted. */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import type { Client } from '../../client/client.ts'
import type { DocumentView } from '../../documents/view.ts'
import type { Batch, Item } from '../runtime/batch.ts'
import type { Cli } from '../runtime/context.ts'
import { type Each, problemOf, workThrough } from '../runtime/run-batch.ts'
import { waitForDocuments } from '../runtime/waiting.ts'
import type { AfterUpload } from './after-upload.ts'
import type { FoundFile } from './find-files.ts'
import { type Group, plan, smallFile, type WindowAnswer } from './plan.ts'
import { type Sending, type Sent, sendOne, sendTogether } from './send.ts'
import type { Journal } from './upload-cache.ts'

export interface Uploading extends Omit<Sending, 'client'> {
  /** the words typed */
  readonly command: string
  readonly concurrency: number
  /** the same bytes are not sent again */
  readonly skipsKnown: boolean
  readonly journal: Journal | null
  readonly after: AfterUpload
  /** milliseconds; what was changed since is left for another run */
  readonly minAge: number
  /** until it is read */
  readonly waits: boolean
  /** of a command that uploads again and again */
  readonly batch?: Batch
}

interface Run extends Uploading {
  readonly cli: Cli
  readonly sending: Sending
  /** over a network, where a call is dear and so are bytes */
  readonly isFar: boolean
  /** items that are told of once their documents are read */
  readonly held: Item[]
}

/** Uploads them, and prints items and summary. `client` null: only says what would be sent. Throws what ends everything. */
export async function upload(cli: Cli, client: Client | null, files: readonly FoundFile[], how: Uploading): Promise<void> {
  const isFar = cli.target.url !== null
  // A request that is repeated must not make a document twice: only where the same bytes are found again is sharing one safe.
  const groups = plan(files, isFar && client !== null && how.skipsKnown && how.options.title === undefined)
  const held: Item[] = []
  const run = client ? { ...how, cli, isFar, held, sending: { ...how, client } } : null
  await workThrough(cli, {
    command: how.command,
    phase: 'upload',
    things: groups,
    total: files.length,
    keyOf: ({ files: [first] }) => first?.path ?? '',
    concurrency: how.concurrency,
    isDryRun: client === null,
    totalBytes: files.some(({ path }) => path === '-') ? null : files.reduce((sum, { size }) => sum + (size ?? 0), 0),
    ...(how.batch ? { batch: how.batch } : {}),
    runGroup: (group, each, moved) => (run ? sendGroup(run, group, each, moved) : tellGroup(how, group, each)),
    async afterwards(add, isReachable) {
      if (run && isReachable && held.length > 0) await addWhenRead(run, add)
      else for (const item of held) add(item)
    },
  })
}

async function tellGroup(how: Uploading, { files }: Group, each: Each): Promise<void> {
  for (const file of files) {
    await each(file.path, async () => {
      if (file.problem) throw file.problem
      return tooYoung(how, file) ?? { action: 'created', key: file.path, bytes: file.size ?? 0 }
    })
  }
}

async function sendGroup(run: Run, group: Group, each: Each, moved: (bytes: number) => void): Promise<void> {
  group.window.answer ??= ask(run, group.window.files)
  const { sums, ids } = await group.window.answer
  const rest: FoundFile[] = []
  for (const file of group.files) {
    const sum = sums.get(file.path)
    const id = sum && ids.get(sum)
    const young = tooYoung(run, file)
    if (!file.problem && !young && !id) rest.push(file)
    else if (
      !(await each(file.path, async () => {
        if (file.problem) throw file.problem
        if (young || !id || !sum) return young
        moved(file.size ?? 0)
        return confirmed(run, file, { id, sha256: sum, created: false, bytes: file.size ?? 0 })
      }))
    )
      return
  }
  if (rest.length > 1 && (await sendShared(run, rest, each, moved))) return
  for (const file of rest) {
    const isGoingOn = await each(file.path, async (movedHere) => confirmed(run, file, await sendOne(run.sending, file, movedHere)))
    if (!isGoingOn) return
  }
}

/** False where the server takes no such request: then each file is sent alone, and has its own reason. */
async function sendShared(run: Run, files: readonly FoundFile[], each: Each, moved: (bytes: number) => void): Promise<boolean> {
  let results: (() => Sent)[]
  try {
    results = await sendTogether(run.sending, files, moved)
  } catch (error) {
    const { status, code } = error as { status?: unknown; code?: unknown }
    // Refused, or a file that cannot be read: which one, only they themselves can tell.
    if (status === 400 || status === 413 || (status === undefined && ['ENOENT', 'EACCES', 'EIO', 'EISDIR'].includes(String(code))))
      return false
    throw error
  }
  for (const [index, file] of files.entries()) await each(file.path, async () => confirmed(run, file, (results[index] as () => Sent)()))
  return true
}

/** The item of a file that the server has. */
async function confirmed(run: Run, file: FoundFile, { id, created, sha256, bytes }: Sent): Promise<Item | null> {
  if (file.path !== '-') {
    await run.journal?.add(file, sha256, id)
    await run.after.done(file)
  }
  const item: Item = { action: created ? 'created' : 'unchanged', key: file.path, id, bytes }
  if (!run.waits) return item
  run.held.push(item)
  return null
}

function tooYoung({ minAge }: Uploading, { path, mtimeNs }: FoundFile): Item | null {
  const age = Date.now() - Number(BigInt(mtimeNs) / 1_000_000n)
  if (minAge === 0 || path === '-' || age >= minAge) return null
  return { action: 'skipped', key: path, reason: `changed less than ${minAge / 1000} s ago` }
}

/** Asks which of them are there. Far away all are read for that, unless they are few and small; here only what the journal knows is asked about. */
async function ask(run: Run, files: readonly FoundFile[]): Promise<WindowAnswer> {
  const sums = new Map<string, string>()
  if (!run.skipsKnown || run.cli.options.printCurl) return { sums, ids: new Map() }
  const isWorthIt = run.isFar && (files.length > 10 || files.some(({ size }) => (size ?? 0) >= smallFile))
  for (const file of files) {
    if (run.cli.signal.aborted) break
    if (file.path === '-' || file.problem || tooYoung(run, file)) continue
    const sum = run.journal?.sumOf(file) ?? (isWorthIt ? await sumOf(file) : undefined)
    if (sum !== undefined) sums.set(file.path, sum)
  }
  const { client, options } = run.sending
  const ids =
    sums.size === 0 ? new Map<string, string>() : await client.documents.known([...new Set(sums.values())], { owner: options.owner })
  return { sums, ids }
}

/** undefined for what cannot be read: sending it tells why. */
async function sumOf({ path }: FoundFile): Promise<string | undefined> {
  const hash = createHash('sha256')
  try {
    for await (const chunk of createReadStream(path, { highWaterMark: 1 << 18 })) hash.update(chunk)
    return hash.digest('hex')
  } catch {
    return undefined
  }
}

/** Adds each item once its document is read; those that are not when the command is stopped, as they are. */
async function addWhenRead({ cli, sending, held }: Run, add: (item: Item) => void): Promise<void> {
  const waiting = new Map(Map.groupBy(held, ({ id }) => id as string))
  try {
    await waitForDocuments(cli, sending.client, [...waiting.keys()], (id, document) => {
      for (const item of waiting.get(id) ?? []) add({ ...item, ...outcomeOf(document) })
      waiting.delete(id)
    })
  } finally {
    for (const item of [...waiting.values()].flat()) add({ ...item, status: 'pending' })
  }
}

function outcomeOf(document: DocumentView | null): Partial<Item> {
  if (!document)
    return { action: 'failed', error: problemOf(Object.assign(new Error('it was deleted meanwhile'), { code: 'DOCUMENT_NOT_FOUND' })) }
  const { status, error } = document
  return status === 'failed' ? { action: 'failed', status, ...(error ? { error } : {}) } : { status }
}
