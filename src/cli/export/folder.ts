/** Export to a folder. A second export updates the files of the first. */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, stat, unlink } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { Client } from '../../client/client.ts'
import { readTextLines } from '../../text-lines.ts'
import type { BatchItem } from '../output/batch-output.ts'
import { bodyChunks, expectedContent } from '../remote/download-target.ts'
import { saveFile } from '../remote/save-file.ts'
import type { Cli } from '../runtime/context.ts'
import { Failure, unusablePath, usage } from '../runtime/exit.ts'
import { runBatch } from '../runtime/run-batch.ts'
import { type Fetched, fetchEach, splitIntoBatches } from './fetch-batch.ts'
import { type ExportFile, type ManifestEntry, manifestFileName, manifestKey, textFileName } from './manifest.ts'

export interface ExportOptions {
  readonly hasText: boolean
  /** delete files of earlier exports that this export does not contain */
  readonly shouldDeleteExtra: boolean
  /** allow `shouldDeleteExtra` to delete all files */
  readonly canDeleteAll: boolean
  readonly concurrency: number
}

const unknown = { size: null, sha256: null }

/** Exports the files and writes the manifest, also after an interruption. Throws Failure USAGE if the folder cannot be created, CONFLICT if all files would be deleted. */
export async function exportToFolder(
  cli: Cli,
  client: Client,
  files: readonly ExportFile[],
  folder: string,
  options: ExportOptions,
): Promise<void> {
  await mkdir(folder, { recursive: true }).catch((error: Error) => {
    throw unusablePath('--to', folder, error)
  })
  const manifest = await readManifest(folder)
  if (options.shouldDeleteExtra && !options.canDeleteAll && files.length === 0 && manifest.size > 0) throw wouldEmpty(folder, manifest.size)
  const requested = new Set(files.map((item) => manifestKey(item.entry(false))))
  const requestedNames = new Set(files.flatMap(({ file }) => [file, textFileName(file)]))
  const save = async (
    item: ExportFile,
    isThere: boolean,
    fetched: Fetched | null,
    onBytes: (bytes: number) => void,
  ): Promise<BatchItem> => {
    const { id, file, size } = item
    const hasText = options.hasText && item.hasText
    const entry = item.entry(hasText)
    const before = manifest.get(manifestKey(entry))
    const path = join(folder, file)
    if (isThere) onBytes(size)
    else if (fetched) await saveFile(chunks(fetched.file), path, unknown, true, onBytes)
    else await fetchTo(item, path, onBytes)
    if (hasText) await writeText(item, entry, join(folder, textFileName(file)), before, fetched?.text ?? null)
    // A renamed document: the manifest forgets the earlier name.
    if (before && options.shouldDeleteExtra) await removeNames(folder, before, requestedNames)
    manifest.set(manifestKey(entry), entry)
    return { action: isThere ? 'unchanged' : before ? 'updated' : 'created', key: file, id, bytes: size }
  }
  await runBatch(cli, {
    command: 'documents export',
    phase: 'export',
    items: splitIntoBatches(files),
    total: files.length,
    concurrency: options.concurrency,
    totalBytes: files.reduce((sum, { size }) => sum + size, 0),
    async runGroup(batch, runItem) {
      const existing = new Set<ExportFile>()
      for (const item of batch)
        if (await isSame(join(folder, item.file), item, manifest.get(manifestKey(item.entry(false))))) existing.add(item)
      const saveItem = (item: ExportFile, fetched: Fetched | null) =>
        runItem(item.file, (onBytes) => save(item, existing.has(item), fetched, onBytes))
      for (const item of existing) if (!(await saveItem(item, null))) return
      const missing = batch.filter((item) => !existing.has(item))
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

async function fetchTo(item: ExportFile, path: string, onBytes: (bytes: number) => void): Promise<void> {
  const response = await item.download()
  try {
    await saveFile(bodyChunks(response), path, expectedContent(response), true, onBytes)
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
  await saveFile(chunks(fetched ?? Buffer.from(await item.text())), path, unknown, true, () => {})
}

/** The text of an old version does not change. */
const changedAt = (entry: ManifestEntry): string => (entry.current === false ? entry.created_at : entry.updated_at)

/** Compares with the manifest, else by SHA-256. */
async function isSame(path: string, { size, sha256 }: ExportFile, before: ManifestEntry | undefined): Promise<boolean> {
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
  for (const [key, { id, file, text_file }] of [...manifest]) {
    if (requested.has(key)) continue
    await removeNames(folder, { file, text_file }, noNames)
    manifest.delete(key)
    add({ action: 'deleted', key: file, id })
  }
}

const noNames: ReadonlySet<string> = new Set()

/** Deletes the files of an entry, except those with a name in `kept`. */
async function removeNames(
  folder: string,
  { file, text_file }: { file: string; text_file?: string | undefined },
  kept: ReadonlySet<string>,
): Promise<void> {
  for (const name of [file, text_file]) if (name !== undefined && !kept.has(name)) await unlink(join(folder, name)).catch(ignoreMissing)
}

function ignoreMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error
}

/** Reads the manifest by key, line by line: it may be longer than a string can be. Ignores entries whose names are paths. Throws Failure USAGE if it cannot be parsed. */
async function readManifest(folder: string): Promise<Map<string, ManifestEntry>> {
  const path = join(folder, manifestFileName)
  const entries = new Map<string, ManifestEntry>()
  try {
    for await (const line of readTextLines(createReadStream(path))) {
      const entry = line === '' ? null : (JSON.parse(line) as ManifestEntry)
      if (entry && isOurs(entry)) entries.set(manifestKey(entry), entry)
    }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return entries
    if (code !== undefined) throw unusablePath('--to', folder, error as Error)
    throw usage(`${path} is not the manifest of an export`, 'export to another folder, or remove that file')
  }
  return entries
}

const isOurs = ({ id, file, text_file }: ManifestEntry): boolean =>
  typeof id === 'string' && [file, text_file ?? file].every((name) => typeof name === 'string' && name === basename(name) && name !== '..')

async function* chunks(bytes: Buffer): AsyncGenerator<Uint8Array> {
  yield bytes
}

/** Yields the manifest sorted by id and version, so that two manifests can be compared. */
async function* linesOf(manifest: ReadonlyMap<string, ManifestEntry>): AsyncGenerator<Uint8Array> {
  const lines = [...manifest.values()].sort((one, other) =>
    one.id === other.id ? one.version - other.version : one.id < other.id ? -1 : 1,
  )
  for (const line of lines) yield Buffer.from(`${JSON.stringify(line)}\n`)
}
