/** Thumbnails of documents, cached per owner in the file store. */
import { hash } from 'node:crypto'
import type { App } from '../app.ts'
import { matchesEtag, untrustedContentHeaders } from '../http/files.ts'
import { ReadFailure } from '../ports/document-reader.ts'
import type { DerivedKey } from '../ports/file-store.ts'
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
  const name = `${size.width}x${size.height}.${type === 'image/webp' ? 'webp' : 'jpg'}`
  const etag = `"${hash('sha256', `${document.sha256} ${name}`).slice(0, 32)}"`
  const cacheHeaders = { 'cache-control': 'private, max-age=3600', vary: 'accept', etag }
  const headers = { 'content-type': type, ...cacheHeaders, ...untrustedContentHeaders }
  if (matchesEtag(ifNoneMatch, etag)) return new Response(null, { status: 304, headers })
  const onUnreadable = (err: unknown) => {
    app.log.warn({ err, document_id: document.id }, 'a cached thumbnail cannot be read')
    return null
  }
  const cached = await app.files.readDerived(keyOf(document), name).catch(onUnreadable)
  return new Response((cached ?? (await createThumbnail(app, document, size, type, name))) as BodyInit, { headers })
}

async function createThumbnail(app: App, document: Document, size: Size, type: PictureType, name: string): Promise<Uint8Array> {
  const { picture, isFinal } = await drawFirstPage(app, document, size, type)
  const thumbnail = picture ?? (await drawPlaceholder(document.mime_type, size, type))
  // A full or read-only store only costs the cache entry.
  if (isFinal)
    await app.files
      .writeDerived(keyOf(document), name, thumbnail)
      .catch((err) => app.log.debug({ err, document_id: document.id }, 'cannot cache a thumbnail'))
  return thumbnail
}

const keyOf = ({ sha256, owner_id }: Document): DerivedKey => ({ sha256, ownerId: owner_id })

/** Renders the first page. `picture` is null if there is none; `isFinal` is false if a later attempt may succeed. */
async function drawFirstPage(app: App, { sha256, filename, mime_type }: Document, size: Size, type: PictureType) {
  const { path, release } = await withAddress(app.reads, sha256, (address) => app.files.openLocal(address))
  try {
    return { picture: await app.previewer.thumbnail({ path, filename, mimeType: mime_type }, size, type), isFinal: true }
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

async function drawPlaceholder(mimeType: string, { width, height }: Size, type: PictureType): Promise<Uint8Array> {
  const [, colour, path] = symbols.find(([pattern]) => pattern.test(mimeType)) ?? []
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 130">
    <path d="M6 4h62l26 26v96H6z" fill="#f6f7f9" stroke="#c3c9d4" stroke-width="2"/><path d="M68 4v26h26z" fill="#dfe3ea" stroke="#c3c9d4" stroke-width="2"/>
    <path d="${path}" fill="none" stroke="${colour}" stroke-width="4"/></svg>`
  // Loaded here, because most processes never draw a placeholder.
  const { default: sharp } = await import('sharp')
  const picture = sharp(Buffer.from(svg)).resize(width, height, { fit: 'inside' }).flatten({ background: '#ffffff' })
  return type === 'image/webp' ? picture.webp().toBuffer() : picture.jpeg().toBuffer()
}
