/** Thumbnails of documents and pictures of their pages, cached per owner in the file store. */
import { hash } from 'node:crypto'
import type { App } from '../app.ts'
import { openSlots } from '../concurrency.ts'
import { AppError } from '../errors.ts'
import { matchesEtag, untrustedContentHeaders } from '../http/files.ts'
import { ReadFailure } from '../ports/document-reader.ts'
import type { DerivedKey } from '../ports/file-store.ts'
import { removeUnusedDerived } from './purge.ts'
import { withAddress } from './stored-files.ts'
import type { Document } from './view.ts'

type PictureType = 'image/webp' | 'image/jpeg'

interface Size {
  width: number
  height: number
}

/** Returns the image type that an Accept header prefers (RFC 9110, 12.5.1), by default WebP. */
export const preferredType = (accept: string | null): PictureType =>
  accept !== null && qualityOf(accept, 'jpeg') > qualityOf(accept, 'webp') ? 'image/jpeg' : 'image/webp'

/** Returns the quality value of the most specific matching media range, 0 if none matches. */
function qualityOf(accept: string, type: 'jpeg' | 'webp'): number {
  const values = accept.toLowerCase().replaceAll('image/jpg', 'image/jpeg').split(',')
  const ranges = values.map((value) => value.split(';').map((part) => part.trim()))
  for (const mediaRange of [`image/${type}`, 'image/*', '*/*']) {
    const [name, ...parameters] = ranges.find(([range]) => range === mediaRange) ?? []
    if (name) return Number(parameters.find((parameter) => parameter.startsWith('q='))?.slice(2) ?? 1)
  }
  return 0
}

/** Responds with the first page scaled to fit width × height, or with a placeholder if the file cannot be rendered. */
export async function thumbnailResponse(
  app: App,
  document: Document,
  size: Size,
  type: PictureType,
  ifNoneMatch: string | null,
): Promise<Response> {
  const name = `${size.width}x${size.height}.${extensions[type]}`
  return cachedPicture(app, document, { name, type, ifNoneMatch }, async () => {
    const { picture, isFinal } = await drawPage(app, document, { page: 1, size, type })
    return { picture: picture ?? (await drawPlaceholder(document, size, type)), isFinal, isCached: isCachedSize(size) }
  })
}

/** A thumbnail is cached if both sides are multiples of this number of pixels. Otherwise one document could have millions of files. */
const cachedStep = 20

const isCachedSize = ({ width, height }: Size): boolean => width % cachedStep === 0 && height % cachedStep === 0

const extensions = { 'image/webp': 'webp', 'image/jpeg': 'jpg' } as const

/** Widths of pictures of pages, in pixels. A few widths keep the cache small. */
export const pageWidths = ['1000', '2000'] as const
/** Maximum height of a picture of a page, in widths. */
const maxPageHeight = 3
/** Number of pages of a document whose pictures are cached. */
const maxCachedPages = 100

export interface PageImage {
  readonly page: number
  readonly width: number
  readonly type: PictureType
}

/** Responds with the picture of a page within `width`. Throws PAGE_IMAGE_NOT_FOUND if there is none or it cannot be rendered. */
export function pageImageResponse(
  app: App,
  document: Document,
  { page, width, type }: PageImage,
  ifNoneMatch: string | null,
): Promise<Response> {
  const name = `page-${page}-${width}.${extensions[type]}`
  return cachedPicture(app, document, { name, type, ifNoneMatch }, async () => {
    const size = { width, height: maxPageHeight * width }
    const { picture, isFinal } = await drawPage(app, document, { page, size, type })
    if (picture === null) throw new AppError('PAGE_IMAGE_NOT_FOUND')
    return { picture, isFinal, isCached: page <= maxCachedPages }
  })
}

interface CachedPicture {
  /** file name in the cache */
  readonly name: string
  readonly type: PictureType
  readonly ifNoneMatch: string | null
}

interface DrawnPicture {
  readonly picture: Uint8Array
  /** false: a later attempt may give another picture */
  readonly isFinal: boolean
  /** false: the server draws it again for each request */
  readonly isCached: boolean
}

/** Responds with a picture from the cache, else with the result of `draw`. */
async function cachedPicture(
  app: App,
  document: Document,
  { name, type, ifNoneMatch }: CachedPicture,
  draw: () => Promise<DrawnPicture>,
): Promise<Response> {
  const etag = `"${hash('sha256', `${document.sha256} ${name}`).slice(0, 32)}"`
  // The URL stays when the file is replaced: caches ask each time, and the ETag makes that cheap.
  const cacheHeaders = { 'cache-control': 'private, no-cache', vary: 'accept', etag }
  const headers = { 'content-type': type, ...cacheHeaders, ...untrustedContentHeaders }
  if (matchesEtag(ifNoneMatch, etag)) return new Response(null, { status: 304, headers })
  const key: DerivedKey = { sha256: document.sha256, ownerId: document.owner_id }
  const cached = await app.files.readDerived(key, name).catch((err: unknown) => {
    app.log.warn({ err, document_id: document.id }, 'a cached thumbnail cannot be read')
    return null
  })
  if (cached) return new Response(cached as BodyInit, { headers })
  const { picture, isFinal, isCached } = await draw()
  // A later attempt may give another picture under the same ETag.
  if (!isFinal)
    return new Response(picture as BodyInit, { headers: { 'content-type': type, 'cache-control': 'no-store', ...untrustedContentHeaders } })
  // A full or read-only store only costs the cache entry.
  if (isCached)
    await cachePicture(app, key, name, picture).catch((err) => app.log.debug({ err, document_id: document.id }, 'cannot cache a thumbnail'))
  return new Response(picture as BodyInit, { headers })
}

/** Stores a picture, and removes it if the bytes were purged while it was drawn: their purge did not find it. */
async function cachePicture(app: App, key: DerivedKey, name: string, picture: Uint8Array): Promise<void> {
  await app.files.writeDerived(key, name, picture)
  await removeUnusedDerived(app, key.sha256)
}

/** Renders a page. `picture` is null if there is none; `isFinal` is false if a later attempt may succeed. */
async function drawPage(
  app: App,
  { sha256, filename, mime_type, owner_id }: Document,
  { page, size, type }: { page: number; size: Size; type: PictureType },
) {
  const { path, release } = await withAddress(app.reads, sha256, (address) => app.files.openLocal(address))
  try {
    const file = { path, filename, mimeType: mime_type }
    return { picture: await app.previewer.thumbnail(file, size, type, { page, turn: owner_id }), isFinal: true }
  } catch (error) {
    // A file that cannot be rendered gets the placeholder.
    if (error instanceof ReadFailure) return { picture: null, isFinal: !error.isRetryable && error.code !== 'READ_TIMEOUT' }
    throw error
  } finally {
    await release()
  }
}

/** Colour and symbol of the placeholder by media type. Symbols are paths, because a server may have no fonts for letters. */
const symbols: readonly (readonly [mimeType: RegExp, colour: string, path: string])[] = [
  [/pdf/, '#c0392b', 'M24 62h52M24 76h52M24 90h52M24 104h30'],
  [/sheet|excel|csv/, '#1e8449', 'M24 62h52v46H24zM24 77h52M24 93h52M50 62v46'],
  [/presentation|powerpoint/, '#ca6f1e', 'M24 62h52v34H24zM50 96v12M38 108h24'],
  [/^image\//, '#7d3c98', 'M24 62h52v46H24zM24 100l16-18 12 12 8-8 16 14'],
  [/^(audio|video)\//, '#b03a6b', 'M38 62v46l36-23z'],
  [/zip|tar|compressed/, '#7e5109', 'M24 72h52v36H24zM24 72l6-12h40l6 12M50 72v16'],
  [/^text\/|^message\/|word|document/, '#2e6da4', 'M24 62h52M24 76h52M24 90h52M24 104h30'],
  [/./, '#55607a', 'M38 85h24'],
]

/** Placeholders are drawn one at a time, and owners take turns: they use the threads that read and write files. */
const placeholderSlot = openSlots(1)

async function drawPlaceholder(document: Document, size: Size, type: PictureType): Promise<Uint8Array> {
  await placeholderSlot.acquire(document.owner_id)
  return drawSymbol(document.mime_type, size, type).finally(() => placeholderSlot.release())
}

async function drawSymbol(mimeType: string, { width, height }: Size, type: PictureType): Promise<Uint8Array> {
  const [, colour, path] = symbols.find(([pattern]) => pattern.test(mimeType)) ?? []
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 130">
    <path d="M6 4h62l26 26v96H6z" fill="#f6f7f9" stroke="#c3c9d4" stroke-width="2"/><path d="M68 4v26h26z" fill="#dfe3ea" stroke="#c3c9d4" stroke-width="2"/>
    <path d="${path}" fill="none" stroke="${colour}" stroke-width="4"/></svg>`
  // Loaded here, because most processes never draw a placeholder.
  const { default: sharp } = await import('sharp')
  const picture = sharp(Buffer.from(svg)).resize(width, height, { fit: 'inside' }).flatten({ background: '#ffffff' })
  return type === 'image/webp' ? picture.webp().toBuffer() : picture.jpeg().toBuffer()
}
