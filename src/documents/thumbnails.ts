/** Small pictures of documents, made once for each owner and kept beside the bytes. */
import { createHash } from 'node:crypto'
import type { App } from '../app.ts'
import { matchesEtag, untrustedContentHeaders } from '../http/files.ts'
import { ReadFailure } from '../ports/document-reader.ts'
import type { DerivedKey } from '../ports/file-store.ts'
import { card } from './placeholder-thumbnail.ts'
import { withAddress } from './stored-files.ts'
import type { Document } from './view.ts'

type PictureType = 'image/webp' | 'image/jpeg'

interface Size {
  width: number
  height: number
}

/** What an Accept header wants more (RFC 9110, 12.5.1); WebP where it does not care, or wants neither. */
export const preferredType = (accept: string | null): PictureType =>
  accept !== null && weightOf(accept, 'jpeg') > weightOf(accept, 'webp') ? 'image/jpeg' : 'image/webp'

/** The weight of the range that is closest to a type of picture, 0 where there is none. */
function weightOf(accept: string, type: 'jpeg' | 'webp'): number {
  const ranges = accept.toLowerCase().replaceAll('image/jpg', 'image/jpeg').split(',')
  for (const wanted of [`image/${type}`, 'image/*', '*/*']) {
    const [name, ...parameters] = ranges.map((range) => range.split(';').map((part) => part.trim())).find(([one]) => one === wanted) ?? []
    if (name) return Number(parameters.find((parameter) => parameter.startsWith('q='))?.slice(2) ?? 1)
  }
  return 0
}

/** Answers the first page inside width × height; a drawn card where the type has no picture or none can be made. */
export async function thumbnail(
  app: App,
  document: Document,
  size: Size,
  type: PictureType,
  ifNoneMatch: string | null,
): Promise<Response> {
  const name = `${size.width}x${size.height}.${type === 'image/webp' ? 'webp' : 'jpg'}`
  const headers = new Headers({
    'content-type': type,
    'cache-control': 'private, max-age=3600',
    vary: 'accept',
    ...untrustedContentHeaders,
  })
  headers.set('etag', `"${createHash('sha256').update(`${document.sha256} ${name}`).digest('hex').slice(0, 32)}"`)
  if (matchesEtag(ifNoneMatch, headers.get('etag') as string)) return new Response(null, { status: 304, headers })
  const unreadable = (err: unknown) => {
    app.log.warn({ err, document_id: document.id }, 'a thumbnail that was kept cannot be read')
    return null
  }
  const kept = await app.files.readDerived(keyOf(document), name).catch(unreadable)
  return new Response((kept ?? (await make(app, document, size, type, name))) as BodyInit, { headers })
}

async function make(app: App, document: Document, size: Size, type: PictureType, name: string): Promise<Uint8Array> {
  const { picture, isFinal } = await drawn(app, document, size, type)
  const made = picture ?? (await card(document.filename, document.mime_type, size, type))
  // A store that is full, or cannot be written to, keeps no picture; the answer does not depend on it.
  if (isFinal)
    await app.files
      .writeDerived(keyOf(document), name, made)
      .catch((err) => app.log.debug({ err, document_id: document.id }, 'a thumbnail could not be kept'))
  return made
}

const keyOf = ({ sha256, owner_id }: Document): DerivedKey => ({ sha256, ownerId: owner_id })

/** The picture, null where there is none; not `isFinal` where another try could end better. */
async function drawn(app: App, { sha256, filename, mime_type }: Document, size: Size, type: PictureType) {
  const { path, release } = await withAddress(app.reads, sha256, (address) => app.files.openLocal(address))
  try {
    return { picture: await app.previewer.thumbnail({ path, filename, mimeType: mime_type }, size, type), isFinal: true }
  } catch (error) {
    // A file that cannot be drawn has a card, as one that has no picture.
    if (error instanceof ReadFailure) return { picture: null, isFinal: !error.isRetryable && error.code !== 'READ_TIMEOUT' }
    throw error
  } finally {
    await release()
  }
}
