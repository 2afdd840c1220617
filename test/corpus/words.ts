/** Counts words independently of the tokenizer under test. */
import { readFile } from 'node:fs/promises'
import { basename, dirname, extname, join } from 'node:path'
import { correctTruth } from './truth-corrections.ts'

/** Returns sequences of letters and digits in lower case. */
export const wordsOf = (text: string): string[] =>
  text
    .normalize('NFC')
    .toLowerCase()
    .match(/[\p{L}\p{N}][\p{L}\p{N}\p{M}]*/gu) ?? []

/** Returns the distinct words that users may search for: three or more letters. */
export const searchable = (text: string): Set<string> => new Set(wordsOf(text).filter((word) => /^[\p{L}\p{M}]{3,40}$/u.test(word)))

export interface Recall {
  readonly found: number
  readonly written: number
}

/** Returns the number of expected words that were read, each at most as often as it occurs. */
export function recall(written: string, read: string): Recall {
  const left = new Map<string, number>()
  for (const word of wordsOf(read)) left.set(word, (left.get(word) ?? 0) + 1)
  const all = wordsOf(written)
  let found = 0
  for (const word of all) {
    const count = left.get(word) ?? 0
    if (count === 0) continue
    found++
    left.set(word, count - 1)
  }
  return { found, written: all.length }
}

/** Returns the ground truth of a scan from the file beside it; null without one. */
export async function truthOf(path: string): Promise<string | null> {
  const stem = basename(path, extname(path))
  // One text was scanned several times, upright and rotated.
  const original = stem.replace(/(-rotated-\w+|rot|_2)$/, '')
  for (const name of [`${stem}.gold.txt`, `${stem}.txt`, `${original}.gold.txt`]) {
    const text = await readFile(join(dirname(path), name), 'utf8').catch(() => null)
    if (text !== null) return text
  }
  const xml = await readFile(join(dirname(path), `${stem}.xml`), 'utf8').catch(() => null)
  return xml === null ? null : correctTruth(stem, textOfLayout(xml))
}

/** Returns the lines of an ALTO file (attributes) or a PAGE file (elements). */
function textOfLayout(xml: string): string {
  const lines = [...xml.matchAll(/<String\b[^>]*\bCONTENT="([^"]*)"|<Unicode>([^<]*)<\/Unicode>/g)]
  return lines.map(([, alto, page]) => unescaped(alto ?? page ?? '')).join('\n')
}

const entities: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }

const unescaped = (text: string): string =>
  text.replace(/&(?:#x([\da-f]+)|#(\d+)|(\w+));/gi, (whole, hex?: string, decimal?: string, name?: string) =>
    name ? (entities[name] ?? whole) : String.fromCodePoint(hex ? Number.parseInt(hex, 16) : Number(decimal)),
  )
