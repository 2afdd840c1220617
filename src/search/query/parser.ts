/** What somebody typed into the search box, understood. */
import { tokenize } from './tokenizer.ts'

export interface Part {
  readonly text: string
  /** words after the first part */
  readonly offset: number
  /** whether words that only begin so count too */
  readonly prefix: boolean
  /** whether it is known to stand for itself in documents, and not only to begin words */
  readonly isWord?: boolean
  /** the known words that begin so, where it is but begun; not there: they are not known, or too many. See begun in vocabulary.ts */
  readonly begun?: readonly string[]
}

/** Something to be found, or (`negated`) not to be found: one word, or several in a row. */
export interface Term {
  readonly parts: readonly Part[]
  /** the parts written as one word, where they were typed together: e-mail, email */
  readonly joined: string | null
  readonly negated: boolean
  /** in quotation marks: only exactly this */
  readonly quoted: boolean
  /** only there; null: wherever */
  readonly field: TermField | null
  /** one of this and the term before is enough */
  readonly alternative: boolean
}

export const termFields = ['title', 'filename', 'content'] as const
export type TermField = (typeof termFields)[number]

const item = new RegExp(`(-?)(?:(${termFields.join('|')}):(?=[^\\s]))?(?:"([^"]*)"?|([^\\s"]+))`, 'g')
const quotes = /[“”„‟«»＂]/g

/** A query with plain quotation marks. */
export const normalizeQuotes = (query: string): string => query.replace(quotes, '"')

const iban = /\b[a-z]{2}\d{2}(?: [a-z\d]{4})(?: (?=[a-z]*\d)[a-z\d]{4}){1,6}(?: (?=[a-z]*\d)[a-z\d]{1,4})\b/gi

/** The terms of a query, each once; none where it holds no letter and no digit. Any text is a query: there are no mistakes. */
export function parse(query: string): Term[] {
  const found = [...joinIbans(normalizeQuotes(query)).matchAll(item)]
  // Signs behind it make the last word no other.
  const last = found.findLastIndex(([, , , phrase, word]) => /[\p{L}\p{N}]/u.test(phrase ?? word ?? ''))
  let isAfterOr = false
  const terms: Term[] = []
  for (const [index, [whole, minus, field, phrase, word]] of found.entries()) {
    const before = terms.at(-1)
    const next = found[index + 1]
    if (whole === 'OR' && before && !before.negated && next && next[1] === '') {
      isAfterOr = true
      continue
    }
    const quoted = phrase !== undefined
    const negated = minus === '-'
    const prefix = !quoted && !negated && index === last
    const term = termOf(phrase ?? word ?? '', { negated, quoted, prefix, field: (field as TermField) ?? null, alternative: isAfterOr })
    if (term) terms.push(term)
    isAfterOr = false
  }
  return terms.some(({ alternative }) => alternative) ? terms : distinct(terms)
}

type TermOptions = Omit<Term, 'parts' | 'joined'> & { readonly prefix: boolean }
const unmarked: TermOptions = { negated: false, quoted: false, prefix: false, field: null, alternative: false }

/** The words of a text as terms, each once; signs mean nothing in it. */
export function termsOf(text: string): Term[] {
  return distinct(
    joinIbans(text)
      .split(/\s+/)
      .flatMap((word) => termOf(word, unmarked) ?? []),
  )
}

/** The words that terms are made of, as they were typed. */
export const wordsOf = (terms: readonly Term[]): string[] => terms.flatMap(({ parts }) => parts.map(({ text }) => text))

/** A text as one term; null where it holds no word. */
export const phraseOf = (text: string): Term | null => termOf(text, { ...unmarked, quoted: true })

/** The groups of a number that is written in groups, in one. */
const joinIbans = (text: string): string => text.replace(iban, (number) => number.replaceAll(' ', ''))

const distinct = (terms: readonly Term[]): Term[] => [...new Map(terms.map((term) => [JSON.stringify(term), term])).values()]

function termOf(text: string, { prefix, ...options }: TermOptions): Term | null {
  const all = [...tokenize(text)]
  const parts = all.filter((word, index) => word.form !== 'joined' && !(word.form === 'last' && all[index - 1]?.form === 'pair'))
  const first = parts[0]
  const last = parts.at(-1)
  if (!first || !last) return null
  const whole = all.find((word) => word.form === 'joined' && word.start === first.start && word.end === last.end)
  return {
    parts: parts.map((word) => ({
      text: word.text,
      offset: word.position - first.position,
      prefix: word.form === 'last' || (prefix && word === last && word.form === 'word'),
    })),
    joined: whole?.text ?? null,
    ...options,
  }
}
