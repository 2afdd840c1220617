/** Files of an export. They are found while it runs: those of all documents would fill the memory. */
import type { Client, Query } from '../../client/client.ts'
import type { EntryStream } from '../../client/http/connection.ts'
import { mapConcurrently } from '../../concurrency.ts'
import type { DocumentView } from '../../documents/view.ts'
import { splitIntoBatches } from './fetch-batch.ts'
import { documentFile, type ExportFile, oldVersionFiles, renditionFile } from './manifest.ts'

export interface ExportFiles {
  /** files that are fetched together */
  readonly batches: AsyncIterable<ExportFile[]>
  /** number of documents at the start */
  readonly documentCount: number
  /** number of files; null: unknown, because of old versions */
  readonly count: number | null
}

export interface FindOptions {
  readonly hasOldVersions: boolean
  readonly rendition: 'pdfa' | undefined
  /** parallel requests for renditions and old versions */
  readonly concurrency: number
  readonly signal: AbortSignal
}

/** Documents whose files are found before the first of them is fetched. */
const documentsPerWindow = 1000

/** Finds the files of the documents that match the query. Throws the error of the first request, such as for a bad filter. */
export async function findExportFiles(client: Client, query: Query, options: FindOptions): Promise<ExportFiles> {
  const documents = client.documents.list(query)
  const first = await documents.next()
  const documentCount = documents.total() ?? 0
  async function* batches(): AsyncGenerator<ExportFile[]> {
    for await (const window of windowsOf(first, documents)) yield* splitIntoBatches(await filesOf(client, window, options))
  }
  return { batches: batches(), documentCount, count: options.hasOldVersions ? null : documentCount }
}

async function* windowsOf(first: IteratorResult<DocumentView>, others: EntryStream<DocumentView>): AsyncGenerator<readonly DocumentView[]> {
  let window = first.done ? [] : [first.value]
  for await (const document of others) {
    if (window.length === documentsPerWindow) {
      yield window
      window = []
    }
    window.push(document)
  }
  if (window.length > 0) yield window
}

async function filesOf(
  client: Client,
  documents: readonly DocumentView[],
  { hasOldVersions, rendition, concurrency, signal }: FindOptions,
): Promise<ExportFile[]> {
  const renditions = new Map<string, ExportFile>()
  const addRendition = async (document: DocumentView) => {
    const file = rendition && (await renditionFile(client, document, rendition))
    if (file) renditions.set(document.id, file)
  }
  if (rendition) await mapConcurrently(documents, concurrency, addRendition, signal)
  const files = documents.map((document) => renditions.get(document.id) ?? documentFile(client, document))
  const addOldVersions = async (document: DocumentView) => void files.push(...(await oldVersionFiles(client, document)))
  if (hasOldVersions) await mapConcurrently(documents, concurrency, addOldVersions, signal)
  return files
}
