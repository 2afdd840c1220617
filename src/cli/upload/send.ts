/** Sends files to a server: alone, or several in one request. */
import { createHash, randomUUID } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { basename } from 'node:path'
import type { Client, Upload, UploadOptions } from '../../client/client.ts'
import { AppError, type Code } from '../../errors.ts'
import type { Rate } from '../runtime/bandwidth-limit.ts'
import { Failure } from '../runtime/exit.ts'
import { refusalsIn } from '../runtime/run-batch.ts'
import type { FoundFile } from './find-files.ts'

export interface Sent {
  readonly id: string
  /** false: the same bytes were there already */
  readonly created: boolean
  /** as they were read here, and as the server has them */
  readonly sha256: string
  readonly bytes: number
}

export interface Sending {
  readonly client: Client
  readonly options: UploadOptions
  /** file name for standard input */
  readonly stdinName: string | undefined
  readonly rate: Rate
}

/** Sends one file. Throws ClientError, and Failure where the server has other bytes than were read. */
export async function sendOne(sending: Sending, file: FoundFile, moved: (bytes: number) => void): Promise<Sent> {
  const reading = readerOf(sending, file, moved)
  const { client, options } = sending
  const { id, created, document } = await client.documents
    .upload(reading.upload, { ...options, idempotencyKey: randomUUID() })
    .catch((error) => {
      const [refused] = refusalsIn(error)
      throw refused?.path === 'owner' && options.owner === undefined ? withoutOwner(refused.message) : error
    })
  return checked({ id, created, sha256: document.sha256, bytes: reading.bytes() }, reading.sum())
}

/** Sends several files with one request; of each what became of it, in their order. Throws ClientError where the request was refused whole. */
export async function sendTogether(sending: Sending, files: readonly FoundFile[], moved: (bytes: number) => void): Promise<(() => Sent)[]> {
  const readings = files.map((file) => readerOf(sending, file, moved))
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
      return checked({ id, created, sha256, bytes: reading.bytes() }, reading.sum())
    }
    const { code, message } = result?.error ?? { code: 'INTERNAL_ERROR', message: 'the server did not tell what became of it' }
    throw new AppError(code as Code, {}, message)
  })
}

/** Reads a file as often as the client needs it, each time from its beginning. */
function readerOf({ stdinName, rate }: Sending, { path, size }: FoundFile, moved: (bytes: number) => void) {
  let bytes = 0
  let hash = createHash('sha256')
  async function* open(): AsyncGenerator<Uint8Array> {
    // Another attempt sends everything again.
    moved(-bytes)
    bytes = 0
    hash = createHash('sha256')
    for await (const chunk of path === '-' ? process.stdin : createReadStream(path, { highWaterMark: 1 << 18 })) {
      await rate(chunk.length)
      hash.update(chunk)
      yield chunk
      bytes += chunk.length
      moved(chunk.length)
    }
  }
  const filename = path === '-' ? (stdinName ?? '') : basename(path)
  const upload: Upload = { filename, size, open, path }
  return { upload, bytes: () => bytes, sum: () => hash.copy().digest('hex') }
}

function checked(sent: Sent, sum: string): Sent {
  if (sent.sha256 !== sum) throw new Failure('FAILED', 'the server has other bytes than were read here (SHA-256 differs)')
  return sent
}

/** At the shell of a server that has no first admin yet, documents would belong to nobody. */
const withoutOwner = (reason: string): Failure =>
  new Failure('USAGE', `whose documents are these? There is ${reason}`, { fix: 'pass --owner USER, or make one: dms users add' })
