/** Requests that upload one file or several. */
import { createHash, randomUUID } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { basename } from 'node:path'
import type { Client, Upload, UploadOptions } from '../../client/client.ts'
import { AppError, type Code } from '../../errors.ts'
import type { Throttle } from '../runtime/bandwidth-limit.ts'
import { Failure } from '../runtime/exit.ts'
import { validationIssues } from '../runtime/run-batch.ts'
import type { FoundFile } from './find-files.ts'

export interface SentFile {
  readonly id: string
  /** false: the owner already had the same content */
  readonly created: boolean
  /** checksum of the local file and of the stored file */
  readonly sha256: string
  readonly bytes: number
}

export interface SendOptions {
  readonly client: Client
  readonly options: UploadOptions
  /** file name for standard input */
  readonly stdinName: string | undefined
  readonly throttle: Throttle
}

/** Sends one file. Throws ClientError, and Failure FAILED if the stored checksum differs. */
export async function sendFile(sending: SendOptions, file: FoundFile, onBytes: (bytes: number) => void): Promise<SentFile> {
  const reading = openReader(sending, file, onBytes)
  const { client, options } = sending
  const { id, created, document } = await client.documents
    .upload(reading.upload, { ...options, idempotencyKey: randomUUID() })
    .catch((error) => {
      const [refused] = validationIssues(error)
      throw refused?.path === 'owner' && options.owner === undefined ? missingOwnerError(refused.message) : error
    })
  return verifyChecksum({ id, created, sha256: document.sha256, bytes: reading.bytes() }, reading.sum())
}

/** Sends several files in one request. Returns a function per file that returns its result or throws its error. Throws ClientError if the request was rejected. */
export async function sendFiles(
  sending: SendOptions,
  files: readonly FoundFile[],
  onBytes: (bytes: number) => void,
): Promise<(() => SentFile)[]> {
  const readings = files.map((file) => openReader(sending, file, onBytes))
  const { client, options } = sending
  const { title: _, ...shared } = options
  const { documents } = await client.documents.bulkUpload(
    readings.map(({ upload }) => upload),
    shared,
  )
  return readings.map((reading, index) => () => {
    const result = documents[index]
    if (result?.status === 'uploaded') {
      const { id, created, sha256 } = result
      return verifyChecksum({ id, created, sha256, bytes: reading.bytes() }, reading.sum())
    }
    const { code, message } = result?.error ?? { code: 'INTERNAL_ERROR', message: 'the server did not tell what became of it' }
    throw new AppError(code as Code, {}, message)
  })
}

/** Opens a reader that restarts from the beginning on each attempt of the client. */
function openReader({ stdinName, throttle }: SendOptions, { path, size }: FoundFile, onBytes: (bytes: number) => void) {
  let bytes = 0
  let hash = createHash('sha256')
  async function* open(): AsyncGenerator<Uint8Array> {
    // A retry sends all bytes again.
    onBytes(-bytes)
    bytes = 0
    hash = createHash('sha256')
    for await (const chunk of path === '-' ? process.stdin : createReadStream(path, { highWaterMark: 1 << 18 })) {
      await throttle(chunk.length)
      hash.update(chunk)
      yield chunk
      bytes += chunk.length
      onBytes(chunk.length)
    }
  }
  const filename = path === '-' ? (stdinName ?? '') : basename(path)
  const upload: Upload = { filename, size, open, path }
  return { upload, bytes: () => bytes, sum: () => hash.copy().digest('hex') }
}

function verifyChecksum(sent: SentFile, sum: string): SentFile {
  if (sent.sha256 !== sum) throw new Failure('FAILED', 'the server has other bytes than were read here (SHA-256 differs)')
  return sent
}

/** Error for the operator of a server without a first admin: the document would have no owner. */
const missingOwnerError = (reason: string): Failure =>
  new Failure('USAGE', `whose documents are these? There is ${reason}`, { fix: 'pass --owner USER, or make one: dms users add' })
