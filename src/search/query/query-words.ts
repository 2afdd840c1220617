/** The words of a query without its filters, and warnings of probable mistakes. */
import { normalizeQuotes, termFields } from './parser.ts'

/** A word, phrase or filter of a query. */
export interface QueryItem {
  /** as typed; fields of words in lower case */
  readonly text: string
  readonly isNegated: boolean
  /** what stands before the colon, in lower case; empty without a colon */
  readonly field: string
  /** what stands behind the colon, without quotation marks and outer white space */
  readonly value: string
  /** a phrase whose second quotation mark is missing */
  readonly isUnclosed: boolean
}

const item = /(-?)(?:([a-z_]+):(?=\S))?(?:"([^"]*)("?)|([^\s"]+))/gi
/** Values after which the word before the colon is not a field: https://…, C:\… */
const notField = /^(?:\/\/|\\)/

const isTermField = (field: string): boolean => (termFields as readonly string[]).includes(field)

/** Divides a query at white space outside of quotation marks. */
export function* divideQuery(query: string): Generator<QueryItem> {
  for (const [whole, minus = '', name = '', phrase, closing, word] of normalizeQuotes(query).matchAll(item)) {
    const field = name.toLowerCase()
    yield {
      text: `${minus}${isTermField(field) ? field : name}${whole.slice(minus.length + name.length)}`,
      isNegated: minus === '-',
      field,
      value: (phrase ?? word ?? '').trim(),
      isUnclosed: phrase !== undefined && closing === '',
    }
  }
}

export interface QueryWords {
  add(item: QueryItem): void
  /** Call it for each filter: OR does not work beside one. */
  passFilter(): void
  /** Returns the words, separated by spaces. */
  end(): string
}

/** Collects words. `isFilter` tells whether a field is that of a filter. */
export function collectWords(isFilter: (field: string) => boolean, warn: (warning: string) => void): QueryWords {
  const words: string[] = []
  let isAfterFilter = false
  const warnOfOr = () => warn('OR stands between two words: ignored here')
  const dropLastOr = () => {
    if (words.at(-1) !== 'OR') return
    words.pop()
    warnOfOr()
  }
  const warnOfField = ({ text, field, value }: QueryItem) => {
    const empty = value === '' ? field : /^-*([a-z_]+):$/i.exec(text)?.[1]?.toLowerCase()
    if (empty && (isTermField(empty) || isFilter(empty))) warn(`${empty}: has no value: searched as a word`)
    if (field.length > 1 && !isTermField(field) && !isFilter(field) && !notField.test(value))
      warn(`${field}: is not a field: searched as words`)
  }
  return {
    add(item) {
      const isUselessOr = item.text === 'OR' && (isAfterFilter || !canBeAlternative(words.at(-1)))
      isAfterFilter = false
      if (isUselessOr) return warnOfOr()
      if (item.isNegated) dropLastOr()
      warnOfField(item)
      words.push(item.text)
    },
    passFilter() {
      dropLastOr()
      isAfterFilter = true
    },
    end() {
      if (words.length > 1) dropLastOr()
      for (const [nth, word] of words.entries()) if (!word.includes('"')) warnOfSyntax(word, nth === words.length - 1, warn)
      return words.join(' ')
    },
  }
}

/** Returns whether OR can follow: a word or phrase that is not negated. */
const canBeAlternative = (text: string | undefined): boolean =>
  text !== undefined && text !== 'OR' && !text.startsWith('-') && /[\p{L}\p{N}]/u.test(text)

/** Warns of operators of other search engines. */
function warnOfSyntax(word: string, isLast: boolean, warn: (warning: string) => void): void {
  if (word === 'AND') warn('AND is searched as a word: all words must match without it')
  if (word === 'NOT') warn('NOT is searched as a word: use -word')
  const isPrefix = isLast && /^[^*]*\*$/.test(word)
  if (!isPrefix && /[\p{L}\p{N}]\*|\*[\p{L}\p{N}]/u.test(word)) warn('* is ignored: only the last word is searched as a prefix')
}
