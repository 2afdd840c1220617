/** Scanned pages in office documents: large pictures in documents with hardly any text. */
import { compareNumbered, type PartCollector } from '../../parts.ts'
import { memberSource } from '../archive.ts'
import { decodeXml } from '../markup.ts'
import type { Archive } from '../zip.ts'
import { findMainPart, readRelations } from './open-xml.ts'

const picture = /^(word\/media|ppt\/media|Pictures)\/[^/]+\.(jpe?g|png|tiff?|bmp|jp2)$/i
/** Minimum size of a scanned page. Logos are smaller, and are not even unpacked. */
const minBytes = 15_000
/** Characters for each picture from which a document counts as text with illustrations. */
const maxCharacters = 200

/** Adds the pictures that may be scanned pages, in their order. `text` is the text of the document. */
export async function addScans(collector: PartCollector, archive: Archive, text: string): Promise<void> {
  const found = archive.names.filter((name) => picture.test(name) && (archive.sizes.get(name) ?? 0) >= minBytes)
  if (found.length === 0 || text.length >= found.length * maxCharacters) return
  for (const name of sortByUse(archive, found)) {
    if (collector.isFull) return
    const filename = name.split('/').at(-1) ?? ''
    await collector.addScan(memberSource(filename, archive.sizes.get(name) ?? 0, () => archive.readMember(name)))
  }
}

/** Sorts pictures in the order of the references in the main part; others, such as those of slides, by number. */
function sortByUse(archive: Archive, names: readonly string[]): string[] {
  const main = findMainPart(archive)
  const targets = new Map(main === null ? [] : readRelations(archive, main).map(({ id, target }) => [id, target]))
  const positions = new Map<string, number>()
  for (const { 1: value = '', index } of decodeXml(archive.readPart(main ?? 'content.xml') ?? new Uint8Array()).matchAll(/"([^"]+)"/g)) {
    const name = targets.get(value) ?? value
    if (!positions.has(name)) positions.set(name, index)
  }
  const positionOf = (name: string): number => positions.get(name) ?? Number.MAX_SAFE_INTEGER
  return names.toSorted((one, other) => positionOf(one) - positionOf(other) || compareNumbered(one, other))
}
