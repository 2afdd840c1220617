/** Downloads of many small documents with few requests. */
import { createHash } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import { readTar } from '../../backup/tar.ts'
import type { Client } from '../../client/client.ts'
import type { DocumentView } from '../../documents/view.ts'
import { bodyChunks } from '../remote/download-target.ts'

export interface FetchedDocument {
  readonly document: DocumentView
  readonly file: Buffer
  /** null: not requested, or too long for a batch */
  readonly text: Buffer | null
}

/** Larger files have a request of their own, and are never in memory as a whole. */
const smallFileBytes = 1 << 20
const maxPerBatch = 200

/** Divides documents into batches. A document with a large file is a batch of its own. */
export function splitIntoBatches(documents: readonly DocumentView[]): DocumentView[][] {
  const small = documents.filter(({ size }) => size < smallFileBytes)
  const large = documents.filter(({ size }) => size >= smallFileBytes).map((document) => [document])
  const batches: DocumentView[][] = []
  for (let from = 0; from < small.length; from += maxPerBatch) batches.push(small.slice(from, from + maxPerBatch))
  return [...batches, ...large]
}

/**
 * Calls `save` with each document: first those that one request fetched, then the others with null. Stops when `save` returns false.
 */
export async function fetchEach(
  client: Client,
  batch: readonly DocumentView[],
  withText: boolean,
  save: (document: DocumentView, fetched: FetchedDocument | null) => Promise<boolean>,
): Promise<void> {
  const remaining = new Set(batch)
  for await (const fetched of fetchBatch(client, batch, withText)) {
    remaining.delete(fetched.document)
    if (!(await save(fetched.document, fetched))) return
  }
  for (const document of remaining) if (!(await save(document, null))) return
}

/**
 * Yields the documents of a batch whose files arrived intact. The others need a request of their own, which reports the reason: they are damaged,
 * deleted or large, or the server is of an earlier version.
 */
async function* fetchBatch(client: Client, batch: readonly DocumentView[], withText: boolean): AsyncGenerator<FetchedDocument> {
  if (batch.length < 2) return
  const byId = new Map(batch.map((document) => [document.id, document]))
  const response = await client.documents.batchGet([...byId.keys()], { withText }).catch(() => null)
  if (!response) return
  const archive = readTar(bodyChunks(response))
  try {
    let current: FetchedDocument | null = null
    for (let entry = await readEntry(archive); entry; entry = await readEntry(archive)) {
      const document = byId.get(entry.path.slice(0, 36))
      if (!document) continue
      if (entry.path[36] === '/') {
        if (current) yield current
        current = isIntact(entry.content, document) ? { document, file: entry.content, text: null } : null
      } else if (current?.document === document) current = { ...(current as FetchedDocument), text: entry.content }
    }
    if (current) yield current
  } finally {
    await response.body?.cancel().catch(() => {})
  }
}

/** Returns the next entry; null at the end of the archive, or where it broke off. */
async function readEntry(archive: ReturnType<typeof readTar>): Promise<{ path: string; content: Buffer } | null> {
  try {
    const { value } = await archive.next()
    return value ? { path: value.path, content: await buffer(value.bytes) } : null
  } catch {
    return null
  }
}

const isIntact = (file: Buffer, { size, sha256 }: DocumentView): boolean =>
  file.length === size && createHash('sha256').update(file).digest('hex') === sha256
