/**
 * The terms of the index that are not words of a document: fields, filters, impact levels and segment blocks.
 * Each begins with `~` and a letter, which no word does.
 */
import type { SearchFilter } from '../../../../ports/search-engine.ts'

/** Field weights of a tsvector: A title, B label, C filename, D content. */
export const weights = { any: '', title: 'A', labels: 'B', filename: 'C', content: 'D' } as const
export type TextField = keyof typeof weights
export type Weight = (typeof weights)[TextField]
export type HeadingWeight = 'A' | 'B' | 'C'

export const ownerTerm = (id: string): string => `~o${id}`
export const mimeTypeTerm = (name: string): string => `~m${name.toLowerCase()}`
export const labelTerm = (id: string): string => `~l${id}`
export const statusTerm = (status: string): string => `~s${status}`
export const sourceTerm = (id: string): string => `~r${id}`

/** A word of the title, a label or the filename: `title:word` needs no look at positions. */
export const headingTerm = (word: string, weight: HeadingWeight): string => `~${weight}${word}`
/** A word of the title, a label or the filename that the content lacks. */
export const headingOnlyTerm = (word: string): string => `~N${word}`
/** A word with its impact level (see impactOf), 1 to `maxImpact`. */
export const impactTerm = (word: string, level: number): string => `~${level}${word}`

/** The block of its segment that a document is in. */
export const blockTerm = (block: number): string => `~b${block}`
/** The document continues in search_passages; phrases are checked there. */
export const longTerm = '~+long'
/** The document has too many different words for one tsvector; all terms are checked in search_passages. */
export const overflowTerm = '~+overflow'
/** No document has this term. */
export const absentTerm = '~+absent'

const firstMonth = 0
const lastMonth = 9999 * 12 + 11
const monthOf = (at: Date): number => Math.min(Math.max(at.getUTCFullYear() * 12 + at.getUTCMonth(), firstMonth), lastMonth)
const monthTerm = (month: number): string => `~t${month}`
const confidenceTerm = (decile: number): string => `~c${decile}`
const decileOf = (confidence: number): number => Math.floor(confidence * 10)

/** The terms that date and confidence filters look up. */
export const rangeTerms = (createdAt: Date, confidence: number | null): string[] => [
  monthTerm(monthOf(createdAt)),
  ...(confidence === null ? [] : [confidenceTerm(decileOf(confidence))]),
]

/** A date filter over more months is checked on the rows alone. */
const maxMonths = 24

/** For each range of a filter the terms of which a matching document has one; a superset of the matches. */
export function rangeFilterTerms({ from, to, minConfidence }: SearchFilter): string[][] {
  const deciles = minConfidence === null ? [] : [range(decileOf(minConfidence), decileOf(1)).map(confidenceTerm)]
  if (!from || !to || monthOf(to) - monthOf(from) >= maxMonths) return deciles
  return [from > to ? [absentTerm] : range(monthOf(from), monthOf(to)).map(monthTerm), ...deciles]
}

const range = (first: number, last: number): number[] => Array.from({ length: Math.max(0, last - first + 1) }, (_, nth) => first + nth)

/** Spans of months, each three times as long as the one before, so that the first hold enough of very many matches. */
const spanLengths = [1, 3, 9, 27, 81]

/** Spans of months from `at` on, back in time where `isBack`; `end`: the first moment behind them. */
export function monthSpans(at: Date, isBack: boolean): { readonly spans: readonly string[][]; readonly end: Date } {
  const step = isBack ? -1 : 1
  let next = monthOf(at)
  const spans = spanLengths.map((length) => {
    const months = Array.from({ length }, (_, nth) => monthTerm(next + step * nth))
    next += step * length
    return months
  })
  const first = isBack ? next + 1 : next
  return { spans, end: new Date(Date.UTC(Math.floor(first / 12), first % 12)) }
}
