/** The vocabulary: all words of the index, for typos, stems and substrings. */
import { sql } from 'kysely'
import type { Db } from '../../db/pool.ts'
import type { Token } from '../query/tokenizer.ts'
import { maxListedLength } from './substrings.ts'

const minLetters = 4
/** Longer runs of letters are text without spaces. */
export const maxLetters = 40
/** Words of one statement. */
const batchSize = 5_000
/** Codes of one batch of documents, which are held in memory. */
const maxCodes = 100_000
/** Words that a process remembers to have stored. */
const maxRemembered = 400_000

/** Whether somebody could mistype a word: it is of letters, and neither short nor endless. */
export const isMistypable = (word: string): boolean => word.length >= minLetters && word.length <= maxLetters && /^\p{L}+$/u.test(word)

/** Distinct words of some documents. */
export class Vocabulary {
  /** Those that somebody could mistype. */
  readonly words = new Set<string>()
  /** The others of which a substring could be asked for. */
  readonly codes = new Set<string>()
  /** Languages of the documents, as OCR names them. */
  readonly languages = new Set<string>()

  add({ text, form }: Token): void {
    if (this.words.has(text)) return
    if (isMistypable(text)) this.words.add(text)
    else if ((form === 'word' || form === 'joined') && text.length <= maxListedLength && this.codes.size < maxCodes) this.codes.add(text)
  }

  /** `language` as of a document: codes joined by `+`. */
  addLanguage(language: string): void {
    for (const code of language.split('+')) this.languages.add(code)
  }
}

/** What this process has stored already. */
export class StoredWords {
  #stored = new Map<string, Set<string>>()
  #count = 0

  /** Those of the words that it has not stored in a list yet. */
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

/** Adds words to the vocabulary. Those that no document has any more stay: they cost a little time, never a wrong answer. */
export async function storeVocabulary(db: Db, stored: StoredWords, { words, codes, languages }: Vocabulary): Promise<void> {
  const add = async (list: string, all: Iterable<string>, insert: (words: readonly string[]) => Promise<unknown>) => {
    // Sorted, so that two that add the same words wait for each other instead of dying in a deadlock.
    const missing = stored.missing(list, all).sort()
    for (let start = 0; start < missing.length; start += batchSize) await insert(missing.slice(start, start + batchSize))
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
        select ${language}, dms_stem(${language}, word), word from unnest(${some}::text[]) word where dms_stem(${language}, word) is not null
        on conflict do nothing`.execute(db),
    )
  }
}
