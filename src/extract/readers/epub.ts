/** Books: the chapters in reading order. */

import { decodeHtml, readHtml } from './html.ts'
import { decodeXml, walkXml } from './markup.ts'
import { createTextSink } from './text-sink.ts'
import { type Archive, resolvePart } from './zip.ts'

/** Where the container says that the book's own description is; '' where it says nothing. */
export function findPackagePath(archive: Archive): string {
  let path = ''
  walkXml(decodeXml(archive.readPart('META-INF/container.xml') ?? new Uint8Array()), {
    open(name, attributes) {
      if (name === 'rootfile') path ||= attributes['full-path'] ?? ''
    },
  })
  return path
}

/** Reads the chapters that the spine lists. */
export function readEpub(archive: Archive): string {
  const description = findPackagePath(archive)
  const files = new Map<string, string>()
  const chapters: string[] = []
  walkXml(decodeXml(archive.readPart(description) ?? new Uint8Array()), {
    open(name, { id = '', href = '', idref = '' }) {
      if (name.endsWith('itemref')) chapters.push(idref)
      else if (name.endsWith('item')) files.set(id, resolvePart(description, href.replace(/#.*/, '')))
    },
  })
  const sink = createTextSink()
  for (const chapter of chapters) {
    const name = files.get(chapter) ?? ''
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
