/** Export as a tar archive to a file or to standard output, in constant memory. */
import { open, rename, stat, unlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Client } from '../../client/client.ts'
import { tarEnd, tarHeader, tarPadding } from '../../http/tar-writer.ts'
import { escapeControls } from '../../log/escape.ts'
import { addPath } from '../../missing-file.ts'
import type { BatchItem } from '../output/batch-output.ts'
import { bodyChunks, rejectClosedReader, requireWritableFolder, writeChunk } from '../remote/download-target.ts'
import { copyChunks, fileExistsError, removeStaleParts, temporaryPath, verifyContent } from '../remote/save-file.ts'
import type { Cli } from '../runtime/context.ts'
import { Failure } from '../runtime/exit.ts'
import { exitOfAbort, runBatch } from '../runtime/run-batch.ts'
import { type Fetched, fetchEach } from './fetch-batch.ts'
import type { ExportFiles } from './find-files.ts'
import { type LineSpool, openLineSpool } from './line-spool.ts'
import { type ExportFile, manifestFileName, textFileName } from './manifest.ts'

/** Bytes of the manifest that one write has. */
const bytesPerWrite = 1 << 20

type Write = (chunk: Uint8Array) => Promise<void>

/** Target of the archive. Rejects all writes after a failed one: a partial entry damages the archive. */
interface Target {
  readonly write: Write
  /** error of the first failed write */
  readonly failure: Failure | null
}

/** Creates a target. Its writes throw Failure FAILED, also for errors such as EPIPE or ETIMEDOUT, which a connection to the server can have too. */
function openTarget(write: Write): Target {
  let failure: Failure | null = null
  return {
    get failure() {
      return failure
    },
    async write(chunk) {
      if (failure) throw failure
      await write(chunk).catch((error: NodeJS.ErrnoException) => {
        failure = new Failure('FAILED', `cannot write the archive: ${error.message}`, { code: error.code ?? 'FAILED', cause: error })
        throw failure
      })
    },
  }
}

export interface TarOptions {
  readonly hasText: boolean
  /** replace an existing file */
  readonly canOverwrite: boolean
}

/** Writes the archive to a temporary file and renames it when it is complete. Throws Failure CONFLICT if the file exists. */
export async function exportToTar(
  cli: Cli,
  client: Client,
  files: ExportFiles,
  path: string,
  { hasText, canOverwrite }: TarOptions,
): Promise<void> {
  await requireWritableFolder(dirname(path), path)
  await removeStaleParts(dirname(path))
  if (!canOverwrite && (await stat(path).catch(() => null))) throw fileExistsError(path)
  const temporary = temporaryPath(path)
  const file = await open(temporary, 'wx', 0o600)
  try {
    await writeTar(cli, client, files, {
      hasText,
      write: (chunk) => file.writeFile(chunk).catch(addPath(path)),
      isPipe: false,
      spoolPath: temporaryPath(path),
    })
    if (cli.signal.aborted) return
    await file.sync().catch(addPath(path))
    await rename(temporary, path)
  } finally {
    await file.close()
    await unlink(temporary).catch(() => {})
  }
}

/** Writes the archive to standard output, and failures to standard error. Throws Failure if the archive is not complete. */
export async function exportToStdout(
  cli: Cli,
  client: Client,
  files: ExportFiles,
  { hasText }: Pick<TarOptions, 'hasText'>,
): Promise<void> {
  rejectClosedReader()
  await writeTar(cli, client, files, { hasText, write: writeChunk, isPipe: true, spoolPath: temporaryPath(join(tmpdir(), 'dms')) })
}

interface Archive {
  readonly hasText: boolean
  readonly write: Write
  /** standard output */
  readonly isPipe: boolean
  /** path of a temporary file for the manifest */
  readonly spoolPath: string
}

async function writeTar(cli: Cli, client: Client, files: ExportFiles, archive: Archive): Promise<void> {
  const spool = await openLineSpool(archive.spoolPath).catch((error: Error) => {
    throw new Failure('FAILED', `cannot create a temporary file for the manifest: ${error.message}`, {
      ...(archive.isPipe ? { fix: 'set TMPDIR to a folder that can be written' } : {}),
      cause: error,
    })
  })
  try {
    await writeArchive(cli, client, files, archive, spool)
  } finally {
    await spool.close()
  }
}

async function writeArchive(
  cli: Cli,
  client: Client,
  files: ExportFiles,
  { hasText: withText, write, isPipe }: Archive,
  spool: LineSpool,
): Promise<void> {
  const target = openTarget(write)
  const manifest = openTarget(async (line) => void (await spool.append(line.toString())))
  let added = 0
  let failed = 0
  let isComplete = false
  const silent = {
    add({ action, key, error }: { action: string; key: string; error?: { message: string } }) {
      added++
      if (action !== 'failed') return
      failed++
      cli.warn(`${escapeControls(key)}: ${escapeControls(error?.message ?? 'failed')}`)
    },
    finish() {},
  }
  const append = async (item: ExportFile, fetched: Fetched | null, onBytes: (bytes: number) => void): Promise<BatchItem> => {
    const { id, file, size } = item
    const hasText = withText && item.hasText
    const text = hasText ? (fetched?.text ?? Buffer.from(await item.text())) : null
    const modified = Date.parse(item.createdAt) / 1000
    if (fetched) {
      await writeBuffer(file, fetched.file, modified, target)
      onBytes(size)
    } else await writeFile(item, modified, target, onBytes)
    if (text) await writeBuffer(textFileName(file), text, modified, target)
    await manifest.write(Buffer.from(JSON.stringify(item.entry({ hasText }))))
    return { action: 'created', key: file, id, bytes: size }
  }
  await runBatch(cli, {
    command: 'documents export',
    phase: 'export',
    items: files.batches,
    total: files.count,
    totalBytes: null,
    batch: isPipe ? silent : undefined,
    async runGroup(batch, runItem) {
      await fetchEach(client, batch, { withText }, async (item, fetched) => {
        const canContinue = await runItem(item.file, (onBytes) => append(item, fetched, onBytes))
        const failure = target.failure ?? manifest.failure
        if (failure) throw failure
        return canContinue
      })
    },
    async finish(_, isReachable) {
      if (!isReachable || cli.signal.aborted) return
      await writeManifest(spool, target)
      await target.write(tarEnd)
      isComplete = true
    },
  })
  if (isPipe && !isComplete)
    throw new Failure(exitOfAbort(cli.signal), `the archive is not complete: ${(cli.signal.reason as Error).message}`)
  if (isPipe && failed > 0) cli.exit = failed === added ? 'FAILED' : 'PARTIAL'
}

async function writeFile(
  { file, size, sha256, download }: ExportFile,
  modified: number,
  target: Target,
  onBytes: (bytes: number) => void,
): Promise<void> {
  const header = tarHeader(file, size, modified)
  const response = await download()
  // The header announces the size: a failure from here on damages the archive.
  try {
    await target.write(header)
    const saved = await copyChunks(bodyChunks(response), async (chunk) => {
      await target.write(chunk)
      onBytes(chunk.length)
    })
    verifyContent(saved, { size, sha256 })
  } catch (error) {
    if (target.failure) throw target.failure
    throw new Failure('UNAVAILABLE', `${file}: ${(error as Error).message}; the archive is not complete`)
  } finally {
    await response.body?.cancel().catch(() => {})
  }
  await target.write(tarPadding(size))
}

/** Writes the manifest. The header has its size, so it is copied from the temporary file at the end. */
async function writeManifest({ size, read }: LineSpool, { write }: Target): Promise<void> {
  await write(tarHeader(manifestFileName, size, Date.now() / 1000))
  for (let offset = 0; offset < size; offset += bytesPerWrite)
    await write(await read([{ offset, length: Math.min(bytesPerWrite, size - offset) }]))
  await write(tarPadding(size))
}

async function writeBuffer(path: string, bytes: Buffer, modified: number, { write }: Target): Promise<void> {
  await write(tarHeader(path, bytes.length, modified))
  await write(bytes)
  await write(tarPadding(bytes.length))
}
