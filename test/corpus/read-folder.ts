/** Sends the files of a folder to the server and waits until each is processed or rejected. */
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Client, ClientError } from '../../src/client/client.ts'
import type { DocumentView } from '../../src/documents/view.ts'
import type { Folder } from './folders.ts'

export interface Read {
  /** relative to its folder */
  readonly path: string
  readonly document: DocumentView
  /** seconds from the claim by a worker to the end; null without one */
  readonly seconds: number | null
}

export interface FolderRead {
  readonly read: readonly Read[]
  /** files that the server refused, with its answer */
  readonly refused: ReadonlyMap<string, string>
  /** files that were not finished in time */
  readonly unfinished: readonly string[]
  /** seconds from the first byte sent to the end of the last document */
  readonly seconds: number
}

const uploadsAtOnce = 4
const fields = 'id,status,title,filename,content,error,page_count,mime_type,ocr_confidence,warnings,detected_languages'

/** `stallTimeoutMs`: milliseconds in which at least one document must finish. */
export async function readFolder(
  client: Client,
  root: string,
  folder: Folder,
  paths: readonly string[],
  stallTimeoutMs: number,
): Promise<FolderRead> {
  const start = performance.now()
  const ids = new Map<string, string>()
  const refused = new Map<string, string>()
  await forEachConcurrently(uploadsAtOnce, paths, async (path) => {
    const file = join(root, folder.name, path)
    const { size } = await stat(file)
    const language = folder.languages?.[basename(path)] ?? folder.language
    const upload = { filename: basename(path), size, open: () => createReadStream(file) }
    try {
      ids.set(path, (await client.documents.upload(upload, { language })).id)
    } catch (error) {
      if (!(error instanceof ClientError)) throw error
      refused.set(path, `${error.status} ${error.code} ${JSON.stringify(error.details)}`)
    }
  })
  const waiting = await waitForEnds(client, new Set(ids.values()), stallTimeoutMs)
  const seconds = (performance.now() - start) / 1000
  const times = await processingTimes(client)
  const read: Read[] = []
  for await (const document of client.documents.list({ fields })) {
    const path = [...ids].find(([, id]) => id === document.id)?.[0]
    if (path !== undefined && !waiting.has(document.id)) read.push({ path, document, seconds: times.get(document.id) ?? null })
  }
  return { read, refused, unfinished: [...ids].filter(([, id]) => waiting.has(id)).map(([path]) => path), seconds }
}

/** Returns the documents that did not finish. */
async function waitForEnds(client: Client, waiting: Set<string>, timeoutMs: number): Promise<ReadonlySet<string>> {
  let lastEnd = performance.now()
  while (waiting.size > 0 && performance.now() - lastEnd < timeoutMs) {
    await sleep(250)
    const open = new Set<string>()
    for await (const { id } of client.documents.list({ status: 'pending,processing', fields: 'id' })) open.add(id)
    // A list is read page by page; documents that move between two pages are requested separately.
    for (const id of waiting) {
      if (open.has(id) || !['completed', 'failed'].includes((await client.documents.get(id)).status)) continue
      waiting.delete(id)
      lastEnd = performance.now()
    }
  }
  return waiting
}

async function processingTimes(client: Client): Promise<Map<string, number>> {
  const times = new Map<string, number>()
  const items = client.list<{ document_id: string; processing_time: number | null }>('/api/ocr/queue', {})
  for await (const { document_id, processing_time } of items) if (processing_time !== null) times.set(document_id, processing_time)
  return times
}

/** Runs `work` for every item, `concurrency` at a time. */
export async function forEachConcurrently<T>(concurrency: number, items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const left = items.values()
  const runNext = async () => {
    for (const item of left) await work(item)
  }
  await Promise.all(Array.from({ length: concurrency }, runNext))
}
