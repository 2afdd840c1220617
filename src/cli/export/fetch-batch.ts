/** Downloads of many small documents with few requests. */
import { hash } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import { readTar } from '../../backup/tar.ts'
import type { Client } from '../../client/client.ts'
import { slicesOf } from '../../slices.ts'
import type { ExportFile } from './manifest.ts'

export interface Fetched {
  readonly item: ExportFile
  readonly file: Buffer
  /** null: not requested, or too long for a batch */
  readonly text: Buffer | null
}

/** Larger files are fetched by separate requests and never held in memory as a whole. */
const smallFileBytes = 1 << 20
const maxPerBatch = 200

/** Divides files into batches. A large file and an old version are a batch of their own. */
export function splitIntoBatches(files: readonly ExportFile[]): ExportFile[][] {
  const { small = [], single = [] } = Object.groupBy(files, ({ size, version }) =>
    size < smallFileBytes && version === null ? 'small' : 'single',
  )
  return [...slicesOf(small, maxPerBatch), ...single.map((file) => [file])]
}

/** Calls `save` with each file: first the files that one request fetched, then the other files with null. Stops when `save` returns false. */
export async function fetchEach(
  client: Client,
  batch: readonly ExportFile[],
  options: { withText: boolean },
  save: (item: ExportFile, fetched: Fetched | null) => Promise<boolean>,
): Promise<void> {
  const remaining = new Set(batch)
  for await (const fetched of fetchBatch(client, batch, options)) {
    remaining.delete(fetched.item)
    if (!(await save(fetched.item, fetched))) return
  }
  for (const item of remaining) if (!(await save(item, null))) return
}

/**
 * Yields the files of a batch that arrived intact. Other files are damaged, deleted or large, or the server is an earlier version. A separate request
 * for such a file reports the reason.
 */
async function* fetchBatch(client: Client, batch: readonly ExportFile[], options: { withText: boolean }): AsyncGenerator<Fetched> {
  if (batch.length < 2) return
  const byId = new Map(batch.map((item) => [item.id, item]))
  const response = await client.documents.batchGet([...byId.keys()], options).catch(() => null)
  if (!response?.body) return
  const chunks = response.body[Symbol.asyncIterator]()
  const archive = readTar({ [Symbol.asyncIterator]: () => chunks })
  try {
    let current: Fetched | null = null
    for (let entry = await readEntry(archive); entry; entry = await readEntry(archive)) {
      const item = byId.get(entry.path.slice(0, 36))
      if (!item) continue
      if (entry.path[36] === '/') {
        if (current) yield current
        current = isIntact(entry.content, item) ? { item, file: entry.content, text: null } : null
      } else if (current?.item === item) current = { ...(current as Fetched), text: entry.content }
    }
    if (current) yield current
  } finally {
    // Cancels the response. The client could not be closed while it is partly read.
    await chunks.return?.().catch(() => {})
  }
}

/** Returns the next entry; null at the end of the archive or of an interrupted one. */
async function readEntry(archive: ReturnType<typeof readTar>): Promise<{ path: string; content: Buffer } | null> {
  try {
    const { value } = await archive.next()
    return value ? { path: value.path, content: await buffer(value.bytes) } : null
  } catch {
    return null
  }
}

const isIntact = (file: Buffer, { size, sha256 }: ExportFile): boolean => file.length === size && hash('sha256', file) === sha256
