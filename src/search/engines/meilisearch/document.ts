/** Converts documents to entries of a Meilisearch index. */
import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import { slicesOf } from '../../../slices.ts'
import type { IndexedDocument } from '../../indexed-documents.ts'
import { type Token, tokenize } from '../../query/tokenizer.ts'
import type { Entry } from '../entries.ts'
import { canBeTypoTarget, encodeWord } from './word-encoding.ts'

/** Version of the form of entries, by which `search reindex --if-needed` finds outdated ones. Increment it with each change. */
export const indexVersion = 1

/** Maximum number of words of a content attribute; Meilisearch has 65,535 positions per attribute. Phrases up to the overlap match across two. */
const maxWords = 60_000
const overlapWords = 128
export const maxParts = 64
/** Maximum number of words of a list attribute, in which each word takes eight positions. */
const maxListWords = 8_000
export const maxLists = 32
/** Words after which a long text yields to the event loop. */
const stepWords = 10_000

/** Returns the entry of a document. Texts are encoded words; `joined_…`: joined tokens; `loose_…`: distinct words with typo tolerance, which only these attributes have. */
export async function entryOf(document: IndexedDocument): Promise<Entry> {
  const { id, owner_id, source_id, created_at, document_date, ocr_confidence, mime_type, status, label_ids, label_names } = document
  const joined = new Set<string>()
  const fuzzy = new Set<string>()
  let tokenCount = 0

  /** Encodes a text, in parts of at most `maxPartWords`. */
  const encode = async (text: string, maxPartWords = Number.POSITIVE_INFINITY): Promise<string[]> => {
    const parts: string[][] = [[]]
    for (const word of tokenize(text)) {
      if (++tokenCount % stepWords === 0) await yieldToEventLoop()
      if (word.form === 'joined') joined.add(encodeWord(word.text))
      if (isWhole(word) && canBeTypoTarget(word.text)) fuzzy.add(encodeWord(word.text))
      if (word.form === 'joined') continue
      const last = parts.at(-1)!
      if (last.length < maxPartWords) last.push(encodeWord(word.text))
      else parts.push([...last.slice(-overlapWords), encodeWord(word.text)])
    }
    return parts.map((part) => part.join(' '))
  }
  const encodeLine = async (text: string): Promise<string> => (await encode(text))[0]!

  const title = await encodeLine(document.title)
  const filename = await encodeLine(document.filename)
  const label_words: string[] = []
  for (const name of label_names) label_words.push(await encodeLine(name))
  const content = await encode(document.content, maxWords)
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
    document_date: document_date && Date.parse(document_date),
    document_year: document_date && Number(document_date.slice(0, 4)),
    confidence: ocr_confidence,
    title,
    label_words,
    filename,
    ...numbered('content', content.slice(0, maxParts)),
    ...numbered('joined', lists(joined)),
    ...numbered('loose', lists(fuzzy)),
  }
}

const isWhole = ({ form }: Token): boolean => form === 'word' || form === 'joined'

const numbered = <T>(name: string, values: readonly T[]): Record<string, T> =>
  Object.fromEntries(values.map((value, index) => [`${name}_${index}`, value]))

const lists = (all: ReadonlySet<string>): string[][] => [...slicesOf([...all], maxListWords)].slice(0, maxLists)

const firstMillisecond = Date.UTC(2020)

/** Returns the time of a UUIDv7 in 1/4096 ms, as a safe integer that sorts documents by age. */
function sequence(id: string): number {
  const hex = id.replaceAll('-', '')
  return (Number.parseInt(hex.slice(0, 12), 16) - firstMillisecond) * 4096 + Number.parseInt(hex.slice(13, 16), 16)
}
