/** Objects of stored files. A file of up to one part is an object at its address. A larger file has a pointer at its address. */
import { Readable } from 'node:stream'
import { LRUCache } from 'lru-cache'
import { addressPattern, FileMissing } from '../../../ports/file-store.ts'
import { S3Error } from '../../../s3/signed-requests.ts'
import { checkAddress, mergeByAddress } from '../../address.ts'
import { type Bucket, type S3Body, textBody } from './bucket.ts'
import { toOutage } from './outage.ts'

export interface StoredObjects {
  /** Returns the key of a multipart upload. */
  dataKey(id: string): string
  putSmall(address: string, body: S3Body): Promise<void>
  /** Gives the data of a multipart upload its address. */
  putPointer(address: string, id: string): Promise<void>
  /** Returns the key of the data if the pointer of the file is cached, else the key of its address. Sends no request. */
  keyOf(address: string): string
  /** Returns key and size of a file; null for a missing one. */
  find(address: string): Promise<{ key: string; size: number } | null>
  /** Throws FileMissing. */
  read(address: string, range?: { start: number; end: number }): Promise<Readable>
  remove(address: string): Promise<void>
  list(): AsyncIterable<{ readonly address: string; readonly size: number; readonly ageMs: number }>
  /** Yields all addresses, in no order. Costs fewer requests than list(). */
  addresses(): AsyncIterable<string>
  /** Moves a file out of the list, and returns its new location. Throws FileMissing. */
  quarantine(address: string): Promise<string>
  /** Removes data of multipart uploads of a session that no pointer refers to, in the quarantine or not. */
  removeUnreferencedData(session: string): Promise<void>
}

const maxCachedPointers = 10_000
const maxReadAttempts = 5

/** Opens the objects below `prefix`, which ends with a slash or is empty. Sends no request. */
export function openObjects(bucket: Bucket, prefix: string): StoredObjects {
  const smallKey = (address: string) => `${prefix}files/${checkAddress(address)}`
  const pointerKey = (address: string) => `${prefix}large/${checkAddress(address)}`
  const dataKey = (id: string) => `${prefix}data/${id}`
  /** cache of pointers: id of the data by address */
  const pointers = new LRUCache<string, string>({ max: maxCachedPointers })

  const readPointer = async (address: string): Promise<string | null> => {
    const id = await bucket.readText(pointerKey(address))
    if (id === null) pointers.delete(address)
    else pointers.set(address, id)
    return id
  }
  /** Sends a request about the object of a file. Returns the answer; null for a missing file. */
  const ask = async <T>(address: string, question: (key: string) => Promise<T | null>): Promise<T | null> => {
    const cached = pointers.get(address)
    const answer = cached === undefined ? null : await question(dataKey(cached))
    if (answer !== null) return answer
    // A migration to another store and back has given the address other data.
    const small = await question(smallKey(address))
    if (small !== null) return small
    const id = await readPointer(address)
    return id === null ? null : question(dataKey(id))
  }
  const remove = async (address: string): Promise<void> => {
    await bucket.remove(smallKey(address))
    const id = await readPointer(address)
    if (id === null) return
    // The pointer goes last: a repeated removal finds the data.
    await bucket.remove(dataKey(id))
    await bucket.remove(pointerKey(address))
    pointers.delete(address)
  }

  async function* listFolder(folder: 'files/' | 'large/' | 'quarantine/large/') {
    for await (const { key, size, modifiedAtMs } of bucket.list(prefix + folder)) {
      const address = key.slice(prefix.length + folder.length)
      if (addressPattern.test(address)) yield { address, size: size ?? 0, ageMs: bucket.serverTimeMs() - modifiedAtMs }
    }
  }
  async function* listLarge() {
    for await (const pointer of listFolder('large/')) {
      const id = await readPointer(pointer.address)
      if (id !== null) yield { ...pointer, size: (await bucket.head(dataKey(id)))?.size ?? 0 }
    }
  }

  return {
    dataKey,
    putSmall: (address, body) => bucket.put(smallKey(address), body),
    async putPointer(address, id) {
      await bucket.put(pointerKey(address), textBody(id))
      pointers.set(address, id)
    },
    keyOf(address) {
      const id = pointers.get(checkAddress(address))
      return id === undefined ? smallKey(address) : dataKey(id)
    },
    find: (address) =>
      ask(address, async (key) => {
        const head = await bucket.head(key)
        return head && { key, size: head.size }
      }),
    async read(address, range) {
      const stream = await ask(address, (key) => openStream(bucket, key, range))
      if (stream === null) throw new FileMissing(address)
      return stream
    },
    remove,
    list: () => mergeByAddress(listFolder('files/'), listLarge()),
    async *addresses() {
      for await (const { address } of listFolder('files/')) yield address
      for await (const { address } of listFolder('large/')) yield address
    },
    async quarantine(address) {
      const id = await readPointer(address)
      const to = `${prefix}quarantine/${id === null ? 'files' : 'large'}/${address}`
      if (id === null) {
        if ((await bucket.head(smallKey(address))) === null) throw new FileMissing(address)
        await bucket.copy(smallKey(address), to)
        await bucket.remove(smallKey(address))
        return bucket.locate(to)
      }
      await bucket.put(to, textBody(id))
      await bucket.remove(pointerKey(address))
      pointers.delete(address)
      return bucket.locate(dataKey(id))
    },
    async removeUnreferencedData(session) {
      const ids = new Set<string>()
      for await (const { key } of bucket.list(dataKey(session))) ids.add(key.slice(dataKey('').length))
      if (ids.size === 0) return
      // An address without a generation does not tell its session.
      const generations = new Set(['', ...[...ids].map((id) => id.split('.').at(-1))])
      for (const folder of ['large/', 'quarantine/large/'] as const)
        for await (const { address } of listFolder(folder))
          if (generations.has(address.slice(65))) ids.delete((await bucket.readText(`${prefix}${folder}${address}`)) ?? '')
      for (const id of ids) await bucket.remove(dataKey(id))
    },
  }
}

/** Opens an object as a stream that continues after a lost connection; null for a missing object. */
export async function openStream(bucket: Bucket, key: string, range?: { start: number; end: number }): Promise<Readable | null> {
  const first = await bucket.get(key, range).catch((error) => {
    // Like a range behind the end of a local file.
    if (error instanceof S3Error && error.status === 416) return 'empty' as const
    throw error
  })
  if (first === 'empty') return Readable.from([])
  if (first === null) return null
  const stream = Readable.from(readOn(bucket, key, first, range), { objectMode: false, highWaterMark: 1 << 18 })
  // A stream that is destroyed before its first read never starts readOn(): the response would hold its connection.
  return stream.once('close', () => first.body.on('error', () => {}).destroy())
}

/** Yields the bytes of an object, in several responses if connections are lost. Throws STORAGE_UNAVAILABLE. */
async function* readOn(
  bucket: Bucket,
  key: string,
  first: NonNullable<Awaited<ReturnType<Bucket['get']>>>,
  range: { start: number; end: number } | undefined,
): AsyncGenerator<Buffer> {
  let response: typeof first | null = first
  let done = 0
  for (let attempt = 1; response; attempt++) {
    try {
      for await (const chunk of response.body) {
        done += chunk.length
        attempt = 1
        yield chunk
      }
      return
    } catch (error) {
      if (attempt >= maxReadAttempts) throw toOutage(error)
    } finally {
      response.body.on('error', () => {}).destroy()
    }
    if (done >= first.size) return
    response = await bucket.get(key, { start: (range?.start ?? 0) + done, end: range?.end }, first.etag)
  }
  throw toOutage(new Error(`the object ${key} was removed while it was read`))
}
