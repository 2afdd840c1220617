/** Reader of EPUB books. */

import { ReadFailure } from '../../ports/document-reader.ts'
import { createTextSink } from './decode.ts'
import { decodeHtml, readHtml } from './html.ts'
import { decodeXml, walkXml } from './markup.ts'
import { type Archive, resolvePart } from './zip.ts'

/** Returns the path of the package document, '' if the container names none. */
export function findPackagePath(archive: Archive): string {
  let path = ''
  walkXml(decodeXml(archive.readPart('META-INF/container.xml') ?? new Uint8Array()), {
    open(name, attributes) {
      if (name === 'rootfile') path ||= attributes['full-path'] ?? ''
    },
  })
  return path
}

/** Returns the names of the files that are encrypted. Books without protection can have encrypted fonts. */
function findEncryptedFiles(archive: Archive): Set<string> {
  const names = new Set<string>()
  walkXml(decodeXml(archive.readPart('META-INF/encryption.xml') ?? new Uint8Array()), {
    open(name, { URI }) {
      if (name.endsWith('CipherReference') && URI) names.add(decodePath(URI))
    },
  })
  return names
}

/** Reads the chapters in the order of the spine. Throws ReadFailure FILE_ENCRYPTED. */
export function readEpub(archive: Archive): string {
  const packagePath = findPackagePath(archive)
  const files = new Map<string, string>()
  const chapters: string[] = []
  walkXml(decodeXml(archive.readPart(packagePath) ?? new Uint8Array()), {
    open(name, { id = '', href = '', idref = '' }) {
      if (name.endsWith('itemref')) chapters.push(idref)
      else if (name.endsWith('item')) files.set(id, resolvePart(packagePath, href.replace(/#.*/, '')))
    },
  })
  const encrypted = findEncryptedFiles(archive)
  const sink = createTextSink()
  for (const chapter of chapters) {
    const name = files.get(chapter) ?? ''
    if (encrypted.has(decodePath(name))) throw new ReadFailure('FILE_ENCRYPTED')
    const bytes = archive.readPart(name) ?? archive.readPart(decodePath(name))
    if (bytes && !sink.isFull) sink.add(`${readHtml(decodeHtml(bytes)).text}\n\n`)
  }
  return sink.text().trim()
}

const decodePath = (name: string): string => {
  try {
    return decodeURIComponent(name)
  } catch {
    return name
  }
}
