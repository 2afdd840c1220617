/**
 * File store in a bucket of S3. A file up to one part is an object at its address. A larger one is uploaded before its SHA-256 is known: its
 * object has a random name, and a pointer at its address. See docs/decisions/0012-s3-document-store.md.
 */
import { buffer } from 'node:stream/consumers'
import { shareRuns } from '../../../concurrency.ts'
import type { Config } from '../../../config/schema.ts'
import { AppError } from '../../../errors.ts'
import { hashStream } from '../../../hash-stream.ts'
import { FileMissing, type FileStore, type Markers, type StagedFile } from '../../../ports/file-store.ts'
import { checkAddress, derivedName, newGeneration, parseDerivedName } from '../../address.ts'
import { openCollector } from '../../free-buffers.ts'
import { markerName } from '../../store-marker.ts'
import { type Bucket, bytesBody, encryptionHeaders, openBucket, textBody } from './bucket.ts'
import { openObjects, openStream, type StoredObjects } from './objects.ts'
import { endsSoon, toOutage } from './outage.ts'
import { openPartBuffers } from './part-buffers.ts'
import { openReadCache } from './read-cache.ts'
import { abortUploads, upload } from './upload.ts'
import { openWriteSessions, type WriteSession } from './write-sessions.ts'

/** Opens the store without a request. `cacheFolder` is for files that programs read by path, and for uploads that do not fit into memory. `storeId`: text of its marker, null to accept any. */
export function openS3Store({ storage }: Pick<Config, 'storage'>, cacheFolder: string, storeId: string | null = null): FileStore {
  const bucket = openBucket(storage)
  const prefix = prefixOf(storage)
  const objects = openObjects(bucket, prefix)
  const cache = openReadCache(cacheFolder, storage.cache_bytes)
  const encryption = encryptionHeaders(storage)
  const countBytes = openCollector()
  const openPart = openPartBuffers(cacheFolder)
  const derivedKey = (sha256: string, file = '') => `${prefix}derived/${checkAddress(sha256)}/${file}`
  const check = openCheck(bucket, prefix, storeId)
  const sessions = openWriteSessions(bucket, `${prefix}uncommitted/`, check)
  /** Throws STORAGE_UNAVAILABLE in place of FileMissing if the bucket is not the one that has the file. */
  const throwMissing = async (error: unknown): Promise<never> => {
    if (error instanceof FileMissing) await check()
    throw error
  }

  return {
    async stage(source, maxSize, generation) {
      const session = await sessions.begin()
      const own = session.id + newGeneration().slice(0, 12)
      // A given generation may have several files.
      const id = generation ? `${own}.${generation}` : own
      const addressOf = (sha256: string) => checkAddress([sha256, generation ?? own].filter((part) => part !== '').join('.'))
      try {
        const putSmall = (body: Parameters<StoredObjects['putSmall']>[1]) => objects.putSmall(addressOf(body.sha256), body)
        const { keepMarker: onLeftover } = session
        const uploaded = await upload(bucket, source, {
          maxSize,
          key: objects.dataKey(id),
          encryption,
          openPart,
          countBytes,
          putSmall,
          onLeftover,
        })
        const address = addressOf(uploaded.sha256)
        if (uploaded.isMultipart) await objects.putPointer(address, id)
        return stagedFile({ ...uploaded, address }, objects, session)
      } catch (error) {
        // The last request may have arrived although it failed.
        const isOutage = error instanceof AppError && error.code === 'STORAGE_UNAVAILABLE'
        await (isOutage ? session.abandon() : session.release())
        throw error
      }
    },
    read: (address, range) => objects.read(address, range).catch(throwMissing),
    openLocal: (address) => cache.open(checkAddress(address), () => objects.read(address)).catch(throwMissing),
    async presign(address, seconds, { type, disposition }) {
      const found = await objects.find(address)
      const query = {
        'response-content-type': type,
        'response-content-disposition': disposition,
        'response-cache-control': 'private, no-store',
      }
      return found && bucket.presign(found.key, seconds, query)
    },
    describeLocation: (address) => bucket.locate(objects.keyOf(address)),
    async size(address) {
      const found = await objects.find(address)
      if (found === null) await check()
      return found?.size ?? null
    },
    async remove(address) {
      // Another bucket answers as if it had removed the file.
      if ((await check()) === null) throw toOutage(new Error(`${bucket.locate(prefix + markerName)} is missing`))
      await objects.remove(address)
    },
    async *list() {
      yield* objects.list()
      await check()
    },
    quarantine: (address) => objects.quarantine(address).catch(throwMissing),
    async readDerived({ sha256, ownerId }, name) {
      const object = await openStream(bucket, derivedKey(sha256, derivedName(ownerId, name)))
      return object && buffer(object)
    },
    async writeDerived({ sha256, ownerId }, name, bytes) {
      await bucket.put(derivedKey(sha256, derivedName(ownerId, name)), bytesBody(bytes))
    },
    async removeDerived(sha256) {
      for await (const { key } of bucket.list(derivedKey(sha256))) await bucket.remove(key)
    },
    async *listDerived() {
      for await (const { key, size } of bucket.list(`${prefix}derived/`)) {
        const [sha256 = '', file = ''] = key.slice(`${prefix}derived/`.length).split('/')
        const derived = parseDerivedName(file)
        if (derived && size !== null) yield { key: { sha256, ownerId: derived.ownerId }, name: derived.name, size }
      }
    },
    async listUncommitted() {
      const abandoned = new Map((await sessions.listAbandoned()).map((id) => [id, [] as string[]]))
      if (abandoned.size === 0) return []
      for await (const address of objects.addresses()) abandoned.get(address.slice(65, 77))?.push(address)
      const uncommitted: { address: string; remove(): Promise<void> }[] = []
      for (const [id, addresses] of abandoned) {
        await abortUploads(bucket, objects.dataKey(id))
        await objects.removeUnreferencedData(id)
        if (addresses.length === 0) await sessions.remove(id)
        let left = addresses.length
        const remove = async () => {
          if (--left === 0) await sessions.remove(id)
        }
        uncommitted.push(...addresses.map((address) => ({ address, remove })))
      }
      return uncommitted
    },
    check: async () => void (await check()),
    async close() {
      await sessions.close()
      await bucket.close()
    },
  }
}

/** Returns the markers of the store. */
export function s3Markers({ storage }: Pick<Config, 'storage'>): Markers {
  const prefix = prefixOf(storage)
  const withBucket = async <T>(use: (bucket: Bucket) => Promise<T>): Promise<T> => {
    const bucket = openBucket(storage)
    return use(bucket).finally(() => bucket.close())
  }
  return {
    kind: 's3',
    location: `s3://${storage.s3_bucket}/${prefix}`,
    read: (name) => withBucket(async (bucket) => ((await bucket.readText(prefix + name)) ?? '').trim()),
    write: (name, text, options) => withBucket((bucket) => bucket.put(prefix + name, textBody(`${text}\n`), options)),
    remove: (name) => withBucket((bucket) => bucket.remove(prefix + name)),
  }
}

/** Returns the prefix of all keys, with a slash at its end unless it is empty. */
const prefixOf = ({ s3_prefix }: Config['storage']): string => s3_prefix.replace(/\/?$/, s3_prefix === '' ? '' : '/')

function stagedFile(file: Pick<StagedFile, 'sha256' | 'address' | 'size' | 'head'>, objects: StoredObjects, session: WriteSession) {
  let state: 'staged' | 'committed' | 'released' = 'staged'
  const endUse = async (end: 'release' | 'abandon') => {
    if (state === 'released') return
    state = 'released'
    await session[end]()
  }
  return {
    ...file,
    equals: (other: string) => hasSum(objects, other, file),
    // The file has its address already: no request of a transaction waits for S3.
    async commit() {
      if (state === 'staged') state = 'committed'
    },
    rollback() {
      if (state === 'committed') state = 'staged'
    },
    // Without commit() another file has the same bytes, and discard() removes this file.
    async confirm() {
      if (state === 'committed') await endUse('release')
    },
    async discard() {
      if (state !== 'staged') return endUse('abandon')
      await endUse((await endsSoon(objects.remove(file.address))) ? 'release' : 'abandon')
    },
  }
}

/** Returns whether a stored file has this size and SHA-256; false for a missing file. */
async function hasSum(objects: StoredObjects, address: string, { sha256, size }: { sha256: string; size: number }): Promise<boolean> {
  try {
    if ((await objects.find(address))?.size !== size) return false
    return (await hashStream(await objects.read(address))) === sha256
  } catch (error) {
    if (error instanceof FileMissing) return false
    throw error
  }
}

/**
 * Returns a check that throws STORAGE_UNAVAILABLE if the bucket is out of reach, or its marker differs from the store id, or from the marker that was
 * found first. It returns the marker.
 */
function openCheck(bucket: Bucket, prefix: string, storeId: string | null): () => Promise<string | null> {
  let marker = storeId
  return shareRuns(async () => {
    const current = (await bucket.readText(prefix + markerName))?.trim() ?? null
    if (marker !== null && current !== marker) throw toOutage(new Error(`${bucket.locate(prefix + markerName)} has changed`))
    marker = current
    return current
  })
}
