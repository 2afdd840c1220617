/** What somebody typed into the search box, understood. */
import { words } from './words.ts'

export interface Part {
  readonly text: string
  /** words after the first part */
  readonly offset: number
  /** whether words that only begin so count too */
  readonly prefix: boolean
}

/** Something to be found, or (`negated`) not to be found: one word, or several in a row. */
export interface Term {
  readonly parts: readonly Part[]
  /** the parts written as one word, where they were typed together: e-mail, email */
  readonly joined: string | null
  readonly negated: boolean
  /** in quotation marks: only exactly this */
  readonly quoted: boolean
}

const item = /(-?)(?:"([^"]*)"?|([^\s"]+))/g
const quotes = /[“”„‟«»＂]/g
const iban = /\b[a-z]{2}\d{2}(?: [a-z\d]{4})(?: (?=[a-z]*\d)[a-z\d]{4}){1,6}(?: (?=[a-z]*\d)[a-z\d]{1,4})\b/gi

/** The terms of a query, each once; none where it holds no letter and no digit. Any text is a query: there are no mistakes. */
export function parse(query: string): Term[] {
  const text = asOne(query.replace(quotes, '"'))
  const found = [...text.matchAll(item)]
  const terms = found.flatMap(([, minus, phrase, word], index) => {
    const quoted = phrase !== undefined
    const term = read(phrase ?? word ?? '', {
      negated: minus === '-',
      quoted,
      prefix: !quoted && minus === '' && index === found.length - 1,
    })
    return term ?? []
  })
  return distinct(terms)
}

/** The words of a text as terms, each once; signs mean nothing in it. */
export function termsOf(text: string): Term[] {
  return distinct(
    asOne(text)
      .split(/\s+/)
      .flatMap((word) => read(word, { negated: false, quoted: false, prefix: false }) ?? []),
  )
}

/** A text as one term; null where it holds no word. */
export const phraseOf = (text: string): Term | null => read(text, { negated: false, quoted: true, prefix: false })

/** The groups of a number that is written in groups, in one. */
const asOne = (text: string): string => text.replace(iban, (number) => number.replaceAll(' ', ''))

const distinct = (terms: readonly Term[]): Term[] => [...new Map(terms.map((term) => [JSON.stringify(term), term])).values()]

function read(text: string, { negated, quoted, prefix }: { negated: boolean; quoted: boolean; prefix: boolean }): Term | null {
  const all = [...words(text)]
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
    negated,
    quoted,
  }
}
