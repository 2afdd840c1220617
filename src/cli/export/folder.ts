/** Export to a folder. A second export updates the files of the first. */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, readFile, stat, unlink } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { Client } from '../../client/client.ts'
import type { DocumentView } from '../../documents/view.ts'
import type { BatchItem } from '../output/batch-output.ts'
import { bodyChunks, expectedContent } from '../remote/download-target.ts'
import { saveFile } from '../remote/save-file.ts'
import type { Cli } from '../runtime/context.ts'
import { Failure, usage } from '../runtime/exit.ts'
import { runBatch } from '../runtime/run-batch.ts'
import { type FetchedDocument, fetchEach, splitIntoBatches } from './fetch-batch.ts'
import { exportFileName, type ManifestEntry, manifestEntry, manifestFileName, textFileName } from './manifest.ts'

export interface ExportOptions {
  readonly hasText: boolean
  /** delete files of earlier exports that this export does not contain */
  readonly shouldDeleteExtra: boolean
  /** allow `shouldDeleteExtra` to delete all files */
  readonly canDeleteAll: boolean
  readonly concurrency: number
}

const unknown = { size: null, sha256: null }

/** Exports the documents and writes the manifest, also after an interruption. Throws Failure USAGE if the folder cannot be created, CONFLICT if all files would be deleted. */
export async function exportToFolder(
  cli: Cli,
  client: Client,
  documents: readonly DocumentView[],
  folder: string,
  options: ExportOptions,
): Promise<void> {
  await mkdir(folder, { recursive: true }).catch((error: Error) => {
    throw usage(`--to ${folder}: ${error.message}`)
  })
  const manifest = await readManifest(folder)
  if (options.shouldDeleteExtra && !options.canDeleteAll && documents.length === 0 && manifest.size > 0)
    throw wouldEmpty(folder, manifest.size)
  const requested = new Set(documents.map(({ id }) => id))
  const save = async (
    document: DocumentView,
    isThere: boolean,
    fetched: FetchedDocument | null,
    onBytes: (bytes: number) => void,
  ): Promise<BatchItem> => {
    const before = manifest.get(document.id)
    const file = exportFileName(document)
    const path = join(folder, file)
    if (isThere) onBytes(document.size)
    else if (fetched) await saveFile(chunks(fetched.file), path, unknown, true, onBytes)
    else await fetchTo(client, document, path, onBytes)
    const hasText = options.hasText && document.status === 'completed'
    if (hasText) await writeText(client, document, join(folder, textFileName(file)), before, fetched?.text ?? null)
    manifest.set(document.id, manifestEntry(document, file, hasText))
    return { action: isThere ? 'unchanged' : before ? 'updated' : 'created', key: file, id: document.id, bytes: document.size }
  }
  await runBatch(cli, {
    command: 'documents export',
    phase: 'export',
    items: splitIntoBatches(documents),
    total: documents.length,
    concurrency: options.concurrency,
    totalBytes: documents.reduce((sum, { size }) => sum + size, 0),
    async runGroup(batch, runItem) {
      const existing = new Set<DocumentView>()
      for (const document of batch)
        if (await isSame(join(folder, exportFileName(document)), document, manifest.get(document.id))) existing.add(document)
      const saveItem = (document: DocumentView, fetched: FetchedDocument | null) =>
        runItem(exportFileName(document), (onBytes) => save(document, existing.has(document), fetched, onBytes))
      for (const document of existing) if (!(await saveItem(document, null))) return
      const missing = batch.filter((document) => !existing.has(document))
      await fetchEach(client, missing, options.hasText, saveItem)
    },
    async finish(add, isReachable) {
      if (options.shouldDeleteExtra && isReachable && !cli.signal.aborted) await removeExtra(folder, manifest, requested, add)
      await saveFile(linesOf(manifest), join(folder, manifestFileName), unknown, true, () => {})
    },
  })
}

/** An empty result is more likely a wrong filter than the deletion of all documents. */
const wouldEmpty = (folder: string, files: number): Failure =>
  new Failure('CONFLICT', `no document matches, and --delete-extra would remove all that earlier exports wrote to ${folder} (${files})`, {
    fix: 'look at the filters with "dms documents list", or pass --allow-empty',
  })

async function fetchTo(client: Client, { id }: DocumentView, path: string, onBytes: (bytes: number) => void): Promise<void> {
  const response = await client.documents.download(id)
  try {
    await saveFile(bodyChunks(response), path, expectedContent(response), true, onBytes)
  } finally {
    await response.body?.cancel().catch(() => {})
  }
}

async function writeText(
  client: Client,
  document: DocumentView,
  path: string,
  before: ManifestEntry | undefined,
  fetched: Buffer | null,
): Promise<void> {
  const isThere = before?.text_file === basename(path) && before.updated_at === document.updated_at && (await stat(path).catch(() => null))
  if (!isThere) await saveFile(chunks(fetched ?? Buffer.from(await client.documents.text(document.id))), path, unknown, true, () => {})
}

/** Compares with the manifest, else by SHA-256. */
async function isSame(path: string, { size, sha256 }: DocumentView, before: ManifestEntry | undefined): Promise<boolean> {
  const about = await stat(path).catch(() => null)
  if (about?.size !== size) return false
  if (before?.sha256 === sha256 && before.file === basename(path)) return true
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(path)) hash.update(chunk)
  return hash.digest('hex') === sha256
}

/** Deletes files of earlier exports. Other files in the folder are kept. */
async function removeExtra(
  folder: string,
  manifest: Map<string, ManifestEntry>,
  requested: ReadonlySet<string>,
  add: (item: BatchItem) => void,
): Promise<void> {
  for (const { id, file, text_file } of [...manifest.values()]) {
    if (requested.has(id)) continue
    for (const name of [file, text_file]) if (name !== undefined) await unlink(join(folder, name)).catch(ignoreMissing)
    manifest.delete(id)
    add({ action: 'deleted', key: file, id })
  }
}

function ignoreMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error
}

/** Reads the manifest by document id. Ignores entries whose names are paths. Throws Failure USAGE if it cannot be parsed. */
async function readManifest(folder: string): Promise<Map<string, ManifestEntry>> {
  const text = await readFile(join(folder, manifestFileName), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return ''
    throw usage(`--to ${folder}: ${error.message}`)
  })
  try {
    const lines = text.split('\n').filter((line) => line !== '')
    const entries = lines.map((line) => JSON.parse(line) as ManifestEntry)
    return new Map(entries.filter(isOurs).map((entry) => [entry.id, entry]))
  } catch {
    throw usage(`${join(folder, manifestFileName)} is not the manifest of an export`, 'export to another folder, or remove that file')
  }
}

const isOurs = ({ id, file, text_file }: ManifestEntry): boolean =>
  typeof id === 'string' && [file, text_file ?? file].every((name) => typeof name === 'string' && name === basename(name) && name !== '..')

async function* chunks(bytes: Buffer): AsyncGenerator<Uint8Array> {
  yield bytes
}

/** Yields the manifest sorted by id, so that two manifests can be compared. */
async function* linesOf(manifest: ReadonlyMap<string, ManifestEntry>): AsyncGenerator<Uint8Array> {
  const lines = [...manifest.values()].sort((one, other) => (one.id < other.id ? -1 : 1))
  for (const line of lines) yield Buffer.from(`${JSON.stringify(line)}\n`)
}
