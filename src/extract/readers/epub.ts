/** Books: the chapters in reading order. */

import { decodeHtml, readHtml } from './html.ts'
import { openSink } from './text-sink.ts'
import { decodeXml, walkXml } from './xml-text.ts'
import { type Archive, resolvePart } from './zip.ts'

/** Where the container says that the book's own description is; '' where it says nothing. */
export function packageOf(archive: Archive): string {
  let path = ''
  walkXml(decodeXml(archive.part('META-INF/container.xml') ?? new Uint8Array()), {
    open(name, attributes) {
      if (name === 'rootfile') path ||= attributes['full-path'] ?? ''
    },
  })
  return path
}

/** Reads the chapters that the spine lists. */
export function readEpub(archive: Archive): string {
  const description = packageOf(archive)
  const files = new Map<string, string>()
  const chapters: string[] = []
  walkXml(decodeXml(archive.part(description) ?? new Uint8Array()), {
    open(name, { id = '', href = '', idref = '' }) {
      if (name.endsWith('itemref')) chapters.push(idref)
      else if (name.endsWith('item')) files.set(id, resolvePart(description, href.replace(/#.*/, '')))
    },
  })
  const sink = openSink()
  for (const chapter of chapters) {
    const name = files.get(chapter) ?? ''
    const bytes = archive.part(name) ?? archive.part(unescaped(name))
    if (bytes && !sink.isFull) sink.add(`${readHtml(decodeHtml(bytes)).text}\n\n`)
  }
  return sink.text().trim()
}

const unescaped = (name: string): string => {
  try {
    return decodeURIComponent(name)
  } catch {
    return name
  }
}
