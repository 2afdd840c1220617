/** Export to a folder. A second export updates the files of the first. */
import { createReadStream } from 'node:fs'
import { stat, unlink } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { Client } from '../../client/client.ts'
import { createFolder } from '../../folders.ts'
import { hashStream } from '../../hash-stream.ts'
import { dms } from '../../log/fix.ts'
import type { BatchItem } from '../output/batch-output.ts'
import { bodyChunks, expectedContent } from '../remote/download-target.ts'
import { removeStaleParts, saveFile } from '../remote/save-file.ts'
import type { Cli } from '../runtime/context.ts'
import { Failure, unusablePath } from '../runtime/exit.ts'
import { runBatch } from '../runtime/run-batch.ts'
import { lockFolder } from '../runtime/run-lock.ts'
import { type Fetched, fetchEach } from './fetch-batch.ts'
import type { ExportFiles } from './find-files.ts'
import { type FolderManifest, openFolderManifest } from './folder-manifest.ts'
import { type ExportFile, filesOf, type ManifestEntry, manifestKey, textFileName } from './manifest.ts'

export interface ExportOptions {
  readonly hasText: boolean
  /** delete files of earlier exports that this export does not contain */
  readonly shouldDeleteExtra: boolean
  /** allow `shouldDeleteExtra` to delete all files */
  readonly canDeleteAll: boolean
  readonly concurrency: number
}

const unknown = { size: null, sha256: null }

/**
 * Creates the folder and locks it until the command ends. Removes what killed exports left. Throws Failure USAGE if the folder cannot be used, BUSY if
 * another export uses it for longer than `timeoutMs`.
 */
export async function lockExportFolder(cli: Cli, folder: string, timeoutMs: number): Promise<void> {
  try {
    await createFolder(folder)
    // In the folder itself: other users and hosts may export to it.
    await lockFolder(cli, join(folder, '.dms-export.lock'), folder, 'documents export', performance.now() + timeoutMs)
  } catch (error) {
    throw (error as NodeJS.ErrnoException).syscall === undefined ? error : unusablePath('--to', folder, error as Error)
  }
  await removeStaleParts(folder)
}

/** Exports the files to a locked folder and writes the manifest, also after an interruption. Throws Failure CONFLICT if all files would be deleted. */
export async function exportToFolder(cli: Cli, client: Client, files: ExportFiles, folder: string, options: ExportOptions): Promise<void> {
  const manifest = await openFolderManifest(folder)
  try {
    await exportFiles(cli, client, files, { folder, manifest }, options)
  } finally {
    await manifest.close()
  }
}

async function exportFiles(
  cli: Cli,
  client: Client,
  files: ExportFiles,
  { folder, manifest }: { folder: string; manifest: FolderManifest },
  options: ExportOptions,
): Promise<void> {
  /** Keys of earlier exports. Those of the files of this export are removed as the files are found. */
  const extra = new Set(options.shouldDeleteExtra ? manifest.keys() : [])
  if (!options.canDeleteAll && files.documentCount === 0 && extra.size > 0) throw wouldEmpty(folder, extra.size)
  const save = async (
    item: ExportFile,
    hasFile: boolean,
    before: ManifestEntry | undefined,
    fetched: Fetched | null,
    onBytes: (bytes: number) => void,
  ): Promise<BatchItem> => {
    const { id, file, size } = item
    const hasText = options.hasText && item.hasText
    const entry = item.entry({ hasText })
    const path = join(folder, file)
    if (hasFile) onBytes(size)
    else if (fetched) await saveFile(chunks(fetched.file), path, unknown, { canOverwrite: true, onBytes })
    else await fetchTo(item, path, onBytes)
    if (hasText) await writeText(item, entry, join(folder, textFileName(file)), before, fetched?.text ?? null)
    // Names of a renamed document, and the text that an export without texts leaves: it is deleted with its document.
    const earlier = (before ? filesOf(before) : []).filter((name) => !filesOf(entry).includes(name))
    const isExtra = (name: string): boolean => options.shouldDeleteExtra && name !== textFileName(file)
    await removeFiles(folder, earlier.filter(isExtra))
    const remaining = earlier.filter((name) => !isExtra(name))
    await manifest.set(remaining.length === 0 ? entry : { ...entry, earlier_files: remaining })
    return { action: hasFile ? 'unchanged' : before ? 'updated' : 'created', key: file, id, bytes: size }
  }
  await runBatch(cli, {
    command: 'documents export',
    phase: 'export',
    items: files.batches,
    total: files.count,
    concurrency: options.concurrency,
    totalBytes: null,
    async runGroup(batch, runItem) {
      const existing = new Set<ExportFile>()
      const entries = new Map<ExportFile, ManifestEntry>()
      for (const item of batch) {
        const key = manifestKey(item.entry({ hasText: false }))
        extra.delete(key)
        const before = await manifest.get(key)
        if (before) entries.set(item, before)
        if (await isSame(join(folder, item.file), item, before)) existing.add(item)
      }
      const saveItem = (item: ExportFile, fetched: Fetched | null) =>
        runItem(item.file, (onBytes) => save(item, existing.has(item), entries.get(item), fetched, onBytes))
      for (const item of existing) if (!(await saveItem(item, null))) return
      const missing = batch.filter((item) => !existing.has(item))
      await fetchEach(client, missing, { withText: options.hasText }, saveItem)
    },
    async finish(add, isReachable) {
      if (isReachable && !cli.signal.aborted) await removeExtra(folder, manifest, extra, add)
      await manifest.save()
    },
  })
}

/** An empty result is more likely a wrong filter than the deletion of all documents. */
const wouldEmpty = (folder: string, files: number): Failure =>
  new Failure('CONFLICT', `no document matches, and --delete-extra would remove all that earlier exports wrote to ${folder} (${files})`, {
    fix: ['look at the filters with ', dms`documents list`, ', or pass --allow-empty'],
  })

async function fetchTo(item: ExportFile, path: string, onBytes: (bytes: number) => void): Promise<void> {
  const response = await item.download()
  try {
    await saveFile(bodyChunks(response), path, expectedContent(response), { canOverwrite: true, onBytes })
  } finally {
    await response.body?.cancel().catch(() => {})
  }
}

async function writeText(
  item: ExportFile,
  entry: ManifestEntry,
  path: string,
  before: ManifestEntry | undefined,
  fetched: Buffer | null,
): Promise<void> {
  const isUnchanged = before?.text_file === basename(path) && changedAt(before) === changedAt(entry)
  if (isUnchanged && (await stat(path).catch(() => null))) return
  await saveFile(chunks(fetched ?? Buffer.from(await item.text())), path, unknown, { canOverwrite: true })
}

/** The text of an old version does not change. */
const changedAt = (entry: ManifestEntry): string => (entry.current === false ? entry.created_at : entry.updated_at)

/** Compares with the manifest, else by SHA-256. */
async function isSame(path: string, { size, sha256 }: ExportFile, before: ManifestEntry | undefined): Promise<boolean> {
  const about = await stat(path).catch(() => null)
  if (about?.size !== size) return false
  if (before?.sha256 === sha256 && before.file === basename(path)) return true
  return (await hashStream(createReadStream(path))) === sha256
}

/** Deletes files of earlier exports. Other files in the folder are kept. */
async function removeExtra(
  folder: string,
  manifest: FolderManifest,
  extra: ReadonlySet<string>,
  add: (item: BatchItem) => void,
): Promise<void> {
  for (const key of extra) {
    const entry = (await manifest.get(key)) as ManifestEntry
    await removeFiles(folder, filesOf(entry))
    manifest.delete(key)
    add({ action: 'deleted', key: entry.file, id: entry.id })
  }
}

async function removeFiles(folder: string, names: Iterable<string>): Promise<void> {
  for (const name of names) await unlink(join(folder, name)).catch(ignoreMissing)
}

function ignoreMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error
}

async function* chunks(bytes: Buffer): AsyncGenerator<Uint8Array> {
  yield bytes
}
