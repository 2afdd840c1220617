/** A document as Meilisearch is given it. */
import { setImmediate as breathe } from 'node:timers/promises'
import { type Token, tokenize } from '../../query/tokenizer.ts'
import type { Indexed } from '../postgres/index-documents.ts'
import { isMeantByTypos, written } from './word-encoding.ts'

/** Goes up when what is written per document changes, so that `search reindex --if-needed` sees old entries. */
export const indexVersion = 1

/** Meilisearch knows 65,535 places per attribute, so a long text is cut into several; phrases up to `overlap` words are found across a cut. */
const maxWords = 60_000
const overlap = 128
export const maxParts = 64
/** In a list each word takes eight places. */
const maxListed = 8_000
export const maxLists = 32
/** A long text is read in steps, between which others get their turn. */
const stepWords = 10_000

export type Entry = { readonly id: string } & Readonly<Record<string, unknown>>

/** Texts become words separated by spaces; `joined_…`: e-mail as one word; `loose_…`: each word that tolerates typos once, the only attributes in which Meilisearch looks for them. */
export async function entryOf(document: Indexed): Promise<Entry> {
  const { id, owner_id, source_id, created_at, ocr_confidence, mime_type, status, label_ids, label_names } = document
  const joined = new Set<string>()
  const loose = new Set<string>()
  let read = 0

  /** The words of a text, in pieces. */
  const cut = async (text: string, most = Number.POSITIVE_INFINITY): Promise<string[]> => {
    const pieces: string[][] = [[]]
    for (const word of tokenize(text)) {
      if (++read % stepWords === 0) await breathe()
      if (word.form === 'joined') joined.add(written(word.text))
      if (isWhole(word) && isMeantByTypos(word.text)) loose.add(written(word.text))
      if (word.form === 'joined') continue
      const last = pieces.at(-1)!
      if (last.length < most) last.push(written(word.text))
      else pieces.push([...last.slice(-overlap), written(word.text)])
    }
    return pieces.map((piece) => piece.join(' '))
  }
  const line = async (text: string): Promise<string> => (await cut(text))[0]!

  const title = await line(document.title)
  const filename = await line(document.filename)
  const label_words: string[] = []
  for (const name of label_names) label_words.push(await line(name))
  const content = await cut(document.content, maxWords)
  return {
    id,
    version: indexVersion,
    sequence: sequence(id),
    owner_id,
    source_id,
    status,
    mime_type,
    mime_family: mime_type.split('/')[0]!,
    label_ids,
    labels: label_names,
    created_at: created_at.getTime(),
    confidence: ocr_confidence,
    title,
    label_words,
    filename,
    ...numbered('content', content.slice(0, maxParts)),
    ...numbered('joined', lists(joined)),
    ...numbered('loose', lists(loose)),
  }
}

const isWhole = ({ form }: Token): boolean => form === 'word' || form === 'joined'

const numbered = <T>(name: string, values: readonly T[]): Record<string, T> =>
  Object.fromEntries(values.map((value, index) => [`${name}_${index}`, value]))

function lists(all: ReadonlySet<string>): string[][] {
  const rest = [...all].slice(0, maxLists * maxListed)
  return Array.from({ length: Math.ceil(rest.length / maxListed) }, (_, index) => rest.slice(index * maxListed, (index + 1) * maxListed))
}

const firstMillisecond = Date.UTC(2020)

/** What puts newer ids behind older ones: the time in a UUID of version 7, to a 4096th of a millisecond, as a number that loses nothing. */
function sequence(id: string): number {
  const hex = id.replaceAll('-', '')
  return (Number.parseInt(hex.slice(0, 12), 16) - firstMillisecond) * 4096 + Number.parseInt(hex.slice(13, 16), 16)
}
