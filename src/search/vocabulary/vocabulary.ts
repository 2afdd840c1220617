/** Vocabulary: all indexed words, for typos, stems and substrings. */
import { sql } from 'kysely'
import type { Db } from '../../db/pool.ts'
import { slicesOf } from '../../slices.ts'
import type { Token } from '../query/tokenizer.ts'
import { isLetters } from '../query/typos.ts'
import { maxListedLength } from './substrings.ts'

const minLetters = 4
/** Maximum length of a word. Longer runs of letters are text without spaces. */
export const maxLetters = 40
/** Number of words per statement. */
const batchSize = 5_000
/** Number of codes of a batch of documents above which they are stored before its end, which limits memory. */
const maxCodes = 100_000
/** Maximum number of words that a process remembers as stored. */
const maxRemembered = 400_000

/** Returns whether a word is searched with typos: it consists of letters and has a usual length. */
export const isMistypable = (word: string): boolean => word.length >= minLetters && word.length <= maxLetters && isLetters(word)

/** Collects the distinct words of a batch of documents. */
export class Vocabulary {
  /** Words that are searched with typos; see isMistypable(). */
  readonly words = new Set<string>()
  /** Other words, such as numbers, for substring searches. */
  readonly codes = new Set<string>()
  /** Tesseract codes of the languages of the documents. */
  readonly languages = new Set<string>()

  add({ text, form }: Token): void {
    if (this.words.has(text)) return
    if (isMistypable(text)) this.words.add(text)
    else if ((form === 'word' || form === 'joined') && text.length <= maxListedLength) this.codes.add(text)
  }

  /** Adds the languages of a document: codes joined by `+`; '' if unknown. */
  addLanguage(language: string): void {
    for (const code of language.split('+')) if (code !== '') this.languages.add(code)
  }
}

/** Remembers the words that this process has stored. */
export class StoredWords {
  #stored = new Map<string, Set<string>>()
  #count = 0

  /** Returns the words that were not stored in a list yet. */
  missing(list: string, words: Iterable<string>): string[] {
    const stored = this.#stored.get(list)
    return stored ? [...words].filter((word) => !stored.has(word)) : [...words]
  }

  add(list: string, words: readonly string[]): void {
    this.#count += words.length
    if (this.#count > maxRemembered) {
      this.#stored = new Map()
      this.#count = words.length
    }
    const stored = this.#stored.get(list) ?? new Set()
    for (const word of words) stored.add(word)
    this.#stored.set(list, stored)
  }
}

/** Stores the collected codes and clears them once there are `maxCodes`, to bound memory. */
export async function storeManyCodes(db: Db, stored: StoredWords, { codes }: Vocabulary): Promise<void> {
  if (codes.size < maxCodes) return
  const some = new Vocabulary()
  for (const code of codes) some.codes.add(code)
  codes.clear()
  await storeVocabulary(db, stored, some)
}

/** Stores words, and their stems unless a word is its own stem. Words are never deleted: a word without documents matches nothing. */
export async function storeVocabulary(db: Db, stored: StoredWords, { words, codes, languages }: Vocabulary): Promise<void> {
  const add = async (list: string, all: Iterable<string>, insert: (words: readonly string[]) => Promise<unknown>) => {
    // Sorted: transactions that add the same words wait for each other and cannot deadlock.
    const missing = stored.missing(list, all).sort()
    for (const batch of slicesOf(missing, batchSize)) await insert(batch)
    stored.add(list, missing)
  }
  await add('languages', languages, (some) =>
    sql`insert into search_languages (language) select unnest(${some}::text[]) on conflict do nothing`.execute(db),
  )
  await add('words', words, (some) =>
    sql`insert into search_words (word) select unnest(${some}::text[]) on conflict do nothing`.execute(db),
  )
  await add('codes', codes, (some) =>
    sql`insert into search_codes (word) select unnest(${some}::text[]) on conflict do nothing`.execute(db),
  )
  for (const language of [...languages].sort()) {
    await add(`stems ${language}`, words, (some) =>
      sql`
        insert into search_stems (language, stem, word)
        select ${language}, stem, word from (select word, dms_stem(${language}, word) as stem from unnest(${some}::text[]) word offset 0) stems
        where stem <> word
        on conflict do nothing`.execute(db),
    )
  }
}
