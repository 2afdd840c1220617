/**
 * Uploads of unknown length in bounded memory: one PUT up to one part, else a multipart upload with one part in flight while the next one fills. The
 * size of parts grows: 10,000 parts, the limit of the protocol, hold 8 TiB.
 */
import { createHash, type Hash } from 'node:crypto'
import { Readable } from 'node:stream'
import { AppError } from '../../../errors.ts'
import { S3Error } from '../../../s3/signed-requests.ts'
import { readXml } from '../../../xml.ts'
import { type Bucket, type S3Body, textBody } from './bucket.ts'
import { endsSoon, throwOutage, toOutage } from './outage.ts'
import type { PartBuffer } from './part-buffers.ts'

export interface Uploaded {
  /** hex */
  readonly sha256: string
  readonly size: number
  readonly head: Uint8Array
  /** null: `bytes` are not stored yet */
  readonly isMultipart: boolean
}

interface UploadOptions {
  readonly maxSize: number
  /** key of a multipart upload */
  readonly key: string
  readonly encryption: Readonly<Record<string, string>>
  /** begins a part */
  openPart(): PartBuffer
  /** is called with the size of each received chunk */
  countBytes(bytes: number): void
  /** is called if an unfinished multipart upload may be left in the bucket */
  onLeftover(): void
  /** stores a file that is no larger than one part */
  putSmall(body: S3Body): Promise<void>
}

const headBytes = 4100
const firstPartBytes = 8 << 20
/** Parts double in size after this number. */
const partsPerSize = 1000
/** Time to complete an upload, per part. The server reads the list of parts and may copy them. */
const completionMsPerPart = 100

/** Returns the size of a part by its number, which begins with 1. */
export const partBytes = (number: number): number => firstPartBytes * 2 ** Math.floor((number - 1) / partsPerSize)

/** Uploads `source`. Throws AppError PAYLOAD_TOO_LARGE and STORAGE_UNAVAILABLE. A failure leaves nothing behind that could be found. */
export async function upload(bucket: Bucket, source: AsyncIterable<Uint8Array>, options: UploadOptions): Promise<Uploaded> {
  const { maxSize, key, encryption, openPart, countBytes, putSmall, onLeftover } = options
  const whole = createHash('sha256')
  const head: Uint8Array[] = []
  let size = 0
  let parts: ReturnType<typeof openParts> | null = null
  let part = openPart()
  let partHash = null as Hash | null
  /** Takes the received bytes. The first part has the hash of the whole file so far. */
  const takePart = (): Part => {
    const { read, discard } = part
    const taken = { read, discard, size: part.size(), sha256: (partHash ?? whole.copy()).digest('hex') }
    part = openPart()
    partHash = createHash('sha256')
    return taken
  }
  try {
    for await (const chunk of source) {
      if (size < headBytes) head.push(chunk.slice(0, headBytes - size))
      size += chunk.length
      if (size > maxSize) throw new AppError('PAYLOAD_TOO_LARGE', { max_bytes: maxSize })
      whole.update(chunk)
      partHash?.update(chunk)
      await part.append(chunk)
      countBytes(chunk.length)
      if (part.size() < partBytes(parts?.nextNumber() ?? 1)) continue
      parts ??= openParts(bucket, key, encryption)
      await parts.put(takePart())
    }
    if (!parts) {
      const small = takePart()
      await putSmall(small).finally(small.discard)
    } else {
      if (part.size() > 0) await parts.put(takePart())
      await parts.complete(size)
      if (parts.isAmbiguous() && !(await endsSoon(abortUploads(bucket, key)))) onLeftover()
    }
    return { sha256: whole.digest('hex'), size, head: Buffer.concat(head), isMultipart: parts !== null }
  } catch (error) {
    if (parts && !(await endsSoon(parts.abort()))) onLeftover()
    return throwOutage(error)
  } finally {
    await part.discard()
  }
}

type Part = S3Body & Pick<PartBuffer, 'discard'>

/** Opens a multipart upload, which begins with its first part. */
function openParts(bucket: Bucket, key: string, encryption: Readonly<Record<string, string>>) {
  const etags: string[] = []
  let id: string | null = null
  /** whether the answer to CreateMultipartUpload was lost; there may be two uploads then */
  let isAmbiguous = false
  let number = 0
  let sending: Promise<void> = Promise.resolve()

  const begin = async () => {
    const onRetry = () => {
      isAmbiguous = true
    }
    const answer = await bucket.exchange({ method: 'POST', key, query: { uploads: '' }, headers: encryption, onRetry }).catch((error) => {
      onRetry()
      throw error
    })
    id = (await readFields(answer, 'InitiateMultipartUploadResult')).get('UploadId') ?? ''
    if (id === '') throw toOutage(new Error('S3 has begun a multipart upload without an id'))
    return id
  }
  const send = async (partNumber: number, body: S3Body) => {
    const query = { partNumber: String(partNumber), uploadId: id ?? (await begin()) }
    const response = await bucket.send({ method: 'PUT', key, query, body })
    await response.body.dump()
    etags[partNumber - 1] = [response.headers.etag].flat()[0] ?? ''
  }

  return {
    nextNumber: () => number + 1,
    isAmbiguous: () => isAmbiguous,
    /** Waits until S3 has the previous part. Then this one is sent, and discarded even if that fails. */
    async put(part: Part): Promise<void> {
      const previous = sending
      const partNumber = ++number
      sending = previous.then(() => send(partNumber, part)).finally(part.discard)
      // Awaited by the next call. Until then the rejection must not count as unhandled.
      sending.catch(() => {})
      await previous
    },
    /** Throws STORAGE_UNAVAILABLE unless the object has `size` bytes. */
    async complete(size: number): Promise<void> {
      await sending
      const list = etags.map((etag, index) => `<Part><PartNumber>${index + 1}</PartNumber><ETag>${etag}</ETag></Part>`).join('')
      const body = textBody(`<CompleteMultipartUpload>${list}</CompleteMultipartUpload>`)
      const query = { uploadId: id ?? '' }
      // A server may answer 200 with an error, and an answer may be lost: the object decides.
      const extraTimeoutMs = completionMsPerPart * etags.length
      const failure = await bucket.exchange({ method: 'POST', key, query, body, extraTimeoutMs }).then(
        () => null,
        (error: unknown) => error,
      )
      if (failure !== null && !(failure instanceof S3Error)) throw failure
      const stored = await bucket.head(key)
      if (stored?.size !== size) throw toOutage(failure ?? new Error(`S3 has ${stored?.size ?? 'none'} of ${size} bytes`))
    },
    /** Removes the upload. Throws STORAGE_UNAVAILABLE if parts of it may be left. */
    async abort(): Promise<void> {
      await sending.catch(() => {})
      if (isAmbiguous) await abortUploads(bucket, key)
      else if (id !== null) await abortUpload(bucket, key, id)
    },
  }
}

async function abortUpload(bucket: Bucket, key: string, uploadId: string): Promise<void> {
  await bucket.exchange({ method: 'DELETE', key, query: { uploadId } }).catch((error) => {
    if (!(error instanceof S3Error)) throw error
  })
}

/** Aborts all multipart uploads whose keys begin with `prefix`. */
export async function abortUploads(bucket: Bucket, prefix: string): Promise<void> {
  const answer = await bucket.exchange({ method: 'GET', key: '', query: { uploads: '', prefix } })
  const uploads: { key: string; id: string }[] = []
  let [key, id] = ['', '']
  await readXml(Readable.from([Buffer.from(answer)]), uploadsFormat, (path, text) => {
    if (path === 'Upload/Key') key = text
    else if (path === 'Upload/UploadId') id = text
    else if (path === 'Upload') uploads.push({ key, id })
  })
  for (const one of uploads) if (one.key.startsWith(prefix)) await abortUpload(bucket, one.key, one.id)
}

const uploadsFormat = {
  root: 'ListMultipartUploadsResult',
  label: 'an S3 list of uploads',
  maxBodyBytes: 16 << 20,
  maxChildLength: 64 << 10,
}

async function readFields(xml: string, root: string): Promise<Map<string, string>> {
  const fields = new Map<string, string>()
  const format = { root, label: `an S3 ${root}`, maxBodyBytes: 1 << 20, maxChildLength: 64 << 10 }
  await readXml(Readable.from([Buffer.from(xml)]), format, (path, text) => void fields.set(path, text)).catch((error) => {
    throw toOutage(error)
  })
  return fields
}
