/** Parses queries into terms. */
import { digitGroups, joinAmounts } from './amounts.ts'
import { type Token, tokenize } from './tokenizer.ts'

export interface Part {
  readonly text: string
  /** position after the first part, in words */
  readonly offset: number
  /** matches every word with this prefix: the last word of a query, and Korean words */
  readonly prefix: boolean
}

/** A word or a phrase that documents must contain, or must not contain (`negated`). */
export interface Term {
  readonly parts: readonly Part[]
  /** the parts as one word if a sign joins them, such as email for e-mail; else null */
  readonly joined: string | null
  /** the parts of a number or amount with its digits in groups of three, such as 1 234 56 for 1234,56; else null */
  readonly grouped: readonly Part[] | null
  readonly negated: boolean
  /** in quotation marks: no typos and no stems */
  readonly quoted: boolean
  /** null: any field */
  readonly field: TermField | null
  /** Alternative to the preceding term (OR). */
  readonly alternative: boolean
}

export const termFields = ['title', 'filename', 'content'] as const
export type TermField = (typeof termFields)[number]

const item = new RegExp(`(-?)(?:(${termFields.join('|')}):(?=[^\\s]))?(?:"([^"]*)"?|([^\\s"]+))`, 'g')
const quotes = /[“”„‟«»＂]/g

/** A quotation mark in a Hebrew word, which marks an abbreviation. */
const gershayim = /(?<=\p{sc=Hebrew})["”](?=\p{sc=Hebrew})/gu

/** Replaces typographic quotation marks with ", and those in Hebrew words with U+05F4. */
export const normalizeQuotes = (query: string): string => query.replace(gershayim, '\u05f4').replace(quotes, '"')

const iban = /\b[a-z]{2}\d{2}(?: [a-z\d]{4})(?: (?=[a-z]*\d)[a-z\d]{4}){1,6}(?: (?=[a-z]*\d)[a-z\d]{1,4})\b/gi

/** Returns the distinct terms of a query; none if it has no letter and no digit. There are no syntax errors. */
export function parse(query: string): Term[] {
  const items = [...joinGroups(normalizeQuotes(query)).matchAll(item)]
  // The last word can be followed by punctuation.
  const last = items.findLastIndex(([, , , phrase, word]) => /[\p{L}\p{N}]/u.test(phrase ?? word ?? ''))
  let isAfterOr = false
  const terms: Term[] = []
  for (const [index, [whole, minus, field, phrase, word]] of items.entries()) {
    const before = terms.at(-1)
    const next = items[index + 1]
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

/** Terms joined by OR. */
export type Group = readonly Term[]

/** Returns the groups of terms that are joined by OR. All groups must match. */
export function groupsOf(terms: readonly Term[]): Group[] {
  const groups: Term[][] = []
  for (const term of terms) {
    const last = groups.at(-1)
    if (term.alternative && last) last.push(term)
    else groups.push([term])
  }
  return groups
}

/** A Korean word, to whose end particles are attached. */
const hangul = /\p{sc=Hangul}$/u

type TermOptions = Omit<Term, 'parts' | 'joined' | 'grouped'> & { readonly prefix: boolean }
const plainTerm: TermOptions = { negated: false, quoted: false, prefix: false, field: null, alternative: false }

/** Returns the distinct words of a text as terms. Punctuation has no meaning. */
export function termsOf(text: string): Term[] {
  return distinct(
    joinGroups(text)
      .split(/\s+/)
      .flatMap((word) => termOf(word, plainTerm) ?? []),
  )
}

/** Returns the words of terms. */
export const wordsOf = (terms: readonly Term[]): string[] => terms.flatMap(({ parts }) => parts.map(({ text }) => text))

/** Returns a text as one quoted term; null if it has no word. */
export const phraseOf = (text: string): Term | null => termOf(text, { ...plainTerm, quoted: true })

/** Joins the groups of IBANs and amounts by hyphens: a term of their groups, and of the number without spaces. */
const joinGroups = (text: string): string => joinAmounts(text.replace(iban, (number) => number.replaceAll(' ', '-')))

/** Returns the terms of all forms of a term with several parts. */
export const sequences = ({ parts, grouped }: Term): (readonly Part[])[] => (grouped === null ? [parts] : [parts, grouped])

const distinct = (terms: readonly Term[]): Term[] => [...new Map(terms.map((term) => [JSON.stringify(term), term])).values()]

function termOf(text: string, { prefix, ...options }: TermOptions): Term | null {
  const tokens = [...tokenize(text)]
  const parts = partsOf(tokens)
  const first = parts[0]
  const last = parts.at(-1)
  if (!first || !last) return null
  const whole = tokens.find(({ form, start, end }) => form === 'joined' && start === first.start && end === last.end)
  const isPrefix = last.form === 'word' && (prefix || (!options.quoted && !options.negated && hangul.test(last.text)))
  const groups = digitGroups(text, parts)
  return {
    parts: parts.map((token) => ({
      text: token.text,
      offset: token.position - first.position,
      prefix: token.form === 'last' || (isPrefix && token === last),
    })),
    joined: whole?.text ?? null,
    grouped: groups?.map((text, offset) => ({ text, offset, prefix: isPrefix && offset === groups.length - 1 })) ?? null,
    ...options,
  }
}

/** Returns the tokens that follow each other in a text: none that are joined, and none that a pair contains. */
export const partsOf = (tokens: readonly Token[]): Token[] =>
  tokens.filter(({ form }, index) => form !== 'joined' && !(form === 'last' && tokens[index - 1]?.form === 'pair'))
