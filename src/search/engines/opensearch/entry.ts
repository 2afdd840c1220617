/** Converts documents to entries of an OpenSearch index. */
import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import type { IndexedDocument } from '../../indexed-documents.ts'
import { foldExact, foldSpaces } from '../../query/folding.ts'
import { tokenize } from '../../query/tokenizer.ts'
import { isMistypable } from '../../vocabulary/vocabulary.ts'
import type { Entry } from '../entries.ts'
import { hasStemmer, indexVersion, samePosition, type TextField } from './mapping.ts'

/** Words after which a long text yields to the event loop. */
const stepWords = 10_000
/** Maximum length of a value in characters. A term of Lucene has at most 32,766 bytes. */
const maxValue = 7_000

/**
 * Maximum bytes of the words of an entry. OpenSearch accepts requests of 100 MB. Text of 20 million characters can need more: as bigrams, or as words
 * with stems in many languages.
 */
const maxBytes = 60_000_000

/**
 * Returns the entry of a document. Leaves out the last words of the content if there is no room for all. `bytes`: maximum for words, and for stems.
 */
export async function entryOf(document: IndexedDocument, bytes = maxBytes / 2): Promise<Entry> {
  const {
    id,
    owner_id,
    source_id,
    created_at,
    updated_at,
    document_date,
    size,
    ocr_confidence,
    mime_type,
    status,
    label_ids,
    label_names,
  } = document
  const any = new Set<string>()
  const stemmed: Partial<Record<TextField, Set<string>>> = {}
  const languages = [...new Set(document.language.split('+').filter(hasStemmer))]
  let tokenCount = 0
  let bytesLeft = bytes
  let stemBytesLeft = bytes

  const wordsOf = async (field: TextField, text: string): Promise<string> => {
    const words: string[] = []
    const distinct = stemmed[field] ?? new Set<string>()
    stemmed[field] = distinct
    for (const { text: word, position, form } of tokenize(text)) {
      if (++tokenCount % stepWords === 0) await yieldToEventLoop()
      const size = Buffer.byteLength(word) + 1
      bytesLeft -= any.has(word) ? size : 2 * size
      if (bytesLeft < 0) break
      any.add(word)
      if (isMistypable(word) && !distinct.has(word)) {
        stemBytesLeft -= size * languages.length
        if (stemBytesLeft >= 0) distinct.add(word)
      }
      if (form === 'joined') words[position - 1] += samePosition + word
      else words[position - 1] = word
    }
    return words.join(' ')
  }

  const labels: string[] = []
  for (const name of label_names) labels.push(await wordsOf('labels', name))
  const texts = {
    title: await wordsOf('title', document.title),
    filename: await wordsOf('filename', document.filename),
    content: await wordsOf('content', document.content),
    labels,
  }
  const stems = Object.fromEntries(Object.entries(stemmed).map(([field, words]) => [field, [...words].join(' ')]))
  const values = valuesOf(document)
  return {
    id,
    version: indexVersion,
    owner_id,
    source_id,
    status,
    mime_type,
    label_ids,
    label_names,
    created_at: created_at.getTime(),
    updated_at: updated_at.getTime(),
    document_date,
    size,
    confidence: ocr_confidence,
    title_order: cut(document.title),
    values: values.map(([name, value]) => valueTerm(name, foldSpaces(value))),
    exact_values: values.map(([name, value]) => valueTerm(name, foldExact(value))),
    value_words: [...new Set(values.flatMap(([name, value]) => valueWords(value).map((word) => valueTerm(name, word))))],
    ...texts,
    any: [...any].join(' '),
    stems: Object.fromEntries(languages.map((language) => [language, stems])),
  }
}

/** Returns the values of a document that conditions compare as a whole, with the names of their fields. */
function valuesOf(document: IndexedDocument): (readonly [string, string])[] {
  const { title, filename, mime_type, status, source_id, label_names, metadata } = document
  return [
    ['title', title],
    ['filename', filename],
    ['mime_type', mime_type],
    ['status', status],
    ...(source_id === null ? [] : [['source_id', source_id] as const]),
    ...label_names.map((name) => ['labels', name] as const),
    ...Object.entries(metadata).flatMap(([key, value]) =>
      [value].flat().flatMap((item) => (item === null ? [] : [[`metadata.${key}`, textOf(item)] as const])),
    ),
  ]
}

const textOf = (value: unknown): string => (typeof value === 'object' ? JSON.stringify(value) : String(value))

/** Returns the term of a value of a field. No name contains the separator. */
export const valueTerm = (name: string, value: string): string => `${name}\u0001${cut(value)}`

/** Returns the words of a value. */
const valueWords = (text: string): string[] => [...tokenize(text)].filter(({ form }) => form !== 'joined').map(({ text }) => text)

const cut = (text: string): string => text.slice(0, maxValue).toWellFormed()
