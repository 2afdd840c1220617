/** Requests that upload one file or several. */
import { createHash, randomUUID } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import { open } from 'node:fs/promises'
import { basename } from 'node:path'
import { addAbortSignal } from 'node:stream'
import type { Client, Upload, UploadOptions } from '../../client/client.ts'
import { AppError, type Code } from '../../errors.ts'
import type { Throttle } from '../arguments/throttle.ts'
import { describeMissingAdmin } from '../arguments/users.ts'
import { Failure } from '../runtime/exit.ts'
import type { FoundFile } from './find-files.ts'

export interface SentFile {
  readonly id: string
  /** false: the owner already had the same content */
  readonly created: boolean
  /** checksum of the local file and of the stored file */
  readonly sha256: string
  readonly bytes: number
}

/** Time for requests in progress after a stop signal. */
const stopGraceMs = 1500

/** Returns a signal that aborts `stopGraceMs` after `signal`, and a function that stops listening to `signal`. */
export function delayed(signal: AbortSignal): { delayedSignal: AbortSignal; forget(): void } {
  const controller = new AbortController()
  const abort = (): void => void setTimeout(() => controller.abort(signal.reason), stopGraceMs).unref()
  if (signal.aborted) abort()
  else signal.addEventListener('abort', abort, { once: true })
  // Each file listens to it.
  setMaxListeners(0, controller.signal)
  return { delayedSignal: controller.signal, forget: () => signal.removeEventListener('abort', abort) }
}

export interface SendOptions {
  readonly client: Client
  readonly options: UploadOptions
  /** file name for standard input */
  readonly stdinName: string | undefined
  readonly throttle: Throttle
  /** returns the Idempotency-Key of a file; default: a new key for each call of sendFile() */
  keyOf?(file: FoundFile): string
  /** ends the requests that are being sent */
  readonly signal?: AbortSignal
}

/** Sends one file. Throws ClientError, the reason of `signal`, and Failure FAILED if the stored checksum differs. */
export async function sendFile(sending: SendOptions, file: FoundFile, onBytes: (bytes: number) => void): Promise<SentFile> {
  const reading = openReader(sending, file, onBytes)
  const { client, options, signal } = sending
  const idempotencyKey = sending.keyOf?.(file) ?? randomUUID()
  const { id, created, document } = await client.documents.upload(reading.upload, { ...options, idempotencyKey, signal }).catch((error) => {
    signal?.throwIfAborted()
    throw describeMissingAdmin(describeChanged(error), options.owner)
  })
  return verifyChecksum({ id, created, sha256: document.sha256, bytes: reading.bytes() }, reading.sum())
}

/** Describes the error of a file that grew or shrank while it was sent. */
function describeChanged(error: NodeJS.ErrnoException): Error {
  const { code } = error
  if (code !== 'UND_ERR_REQ_CONTENT_LENGTH_MISMATCH') return error
  return new Failure('FAILED', 'the file changed while it was sent', { code, cause: error })
}

/** Sends several files in one request. Returns a function per file that returns its result or throws its error. Throws ClientError if the request was rejected. */
export async function sendFiles(
  sending: SendOptions,
  files: readonly FoundFile[],
  onBytes: (bytes: number) => void,
): Promise<(() => SentFile)[]> {
  const readings = files.map((file) => openReader(sending, file, onBytes))
  const { client, options, signal } = sending
  const { title: _, ...shared } = options
  const uploads = readings.map(({ upload }) => upload)
  const sent = client.documents.bulkUpload(uploads, { ...shared, idempotencyKey: randomUUID(), signal })
  const { documents } = await sent.catch((error) => {
    signal?.throwIfAborted()
    throw error
  })
  return readings.map((reading, index) => () => {
    const result = documents[index]
    if (result?.status === 'uploaded') {
      const { id, created, sha256 } = result
      return verifyChecksum({ id, created, sha256, bytes: reading.bytes() }, reading.sum())
    }
    const { code, message } = result?.error ?? { code: 'INTERNAL_ERROR', message: 'the answer of the server has no result for this file' }
    throw new AppError(code as Code, {}, message)
  })
}

/** Opens a reader that restarts from the beginning on each attempt of the client. */
function openReader({ stdinName, throttle, signal }: SendOptions, { path, size }: FoundFile, onBytes: (bytes: number) => void) {
  let bytes = 0
  let hash = createHash('sha256')
  async function* read(): AsyncGenerator<Uint8Array> {
    // A retry sends all bytes again.
    onBytes(-bytes)
    bytes = 0
    hash = createHash('sha256')
    const input = () => (signal ? addAbortSignal(signal, process.stdin) : process.stdin)
    for await (const chunk of path === '-' ? input() : openFile(path, size, signal)) {
      await throttle(chunk.length, signal)
      hash.update(chunk)
      yield chunk
      bytes += chunk.length
      onBytes(chunk.length)
    }
  }
  const filename = path === '-' ? (stdinName ?? '') : basename(path)
  const upload: Upload = { filename, size, open: read, path }
  return { upload, bytes: () => bytes, sum: () => hash.copy().digest('hex') }
}

const chunkBytes = 1 << 18

/**
 * Yields the bytes of a file, in buffers of at most 256 KiB. A stream would take three times the processor time for a small file, as would large
 * buffers, which lie outside of V8's heap.
 */
export async function* openFile(path: string, size: number | null, signal?: AbortSignal): AsyncGenerator<Uint8Array> {
  const length = Math.min(chunkBytes, (size ?? chunkBytes) + 1)
  const file = await open(path)
  try {
    for (;;) {
      signal?.throwIfAborted()
      const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(length), 0, length, null)
      if (bytesRead > 0) yield buffer.subarray(0, bytesRead)
      // A regular file ends with a short read.
      if (bytesRead === 0 || (size !== null && bytesRead < length)) return
    }
  } finally {
    await file.close()
  }
}

function verifyChecksum(sent: SentFile, sum: string): SentFile {
  if (sent.sha256 !== sum) throw new Failure('FAILED', 'the stored file differs from the local file (SHA-256)')
  return sent
}
