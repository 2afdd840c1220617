/**
 * The terms of the index that are not words of a document: fields, filters, impact levels and segment blocks.
 * Each begins with `~` and a letter, which no word does.
 */
import type { SearchFilter } from '../../../../ports/search-engine.ts'
import type { IndexedDocument } from '../../../indexed-documents.ts'

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

/** A word of the title, a label or the filename. It answers `title:word` without positions. */
export const headingTerm = (word: string, weight: HeadingWeight): string => `~${weight}${word}`
/** A word of the title, a label or the filename that does not occur in the content. */
export const headingOnlyTerm = (word: string): string => `~N${word}`
/** A word with its impact level, 1 to `maxImpact`; see impactOf(). */
export const impactTerm = (word: string, level: number): string => `~${level}${word}`

/** The block of a document within its segment. */
export const blockTerm = (block: number): string => `~b${block}`
/** Marks a document with passages. Phrases are checked in search_passages. */
export const longTerm = '~+long'
/** Marks a document with too many distinct words for one tsvector. All terms are checked in search_passages. */
export const overflowTerm = '~+overflow'
/** A term that no document has. */
export const absentTerm = '~+absent'

const firstMonth = 0
const lastMonth = 9999 * 12 + 11
const monthOf = (at: Date): number => Math.min(Math.max(at.getUTCFullYear() * 12 + at.getUTCMonth(), firstMonth), lastMonth)
const monthTerm = (month: number): string => `~t${month}`
const confidenceTerm = (decile: number): string => `~c${decile}`
const decileOf = (confidence: number): number => Math.floor(confidence * 10)

/** Number of the month of a calendar date. */
const monthOfDate = (date: string): number => Number(date.slice(0, 4)) * 12 + Number(date.slice(5, 7)) - 1
const dateTerm = (month: number): string => `~d${month}`

/** Returns the terms for filters by dates and by confidence. */
export const rangeTerms = ({ created_at, document_date, ocr_confidence }: IndexedDocument): string[] => [
  monthTerm(monthOf(created_at)),
  ...(document_date === null ? [] : [dateTerm(monthOfDate(document_date))]),
  ...(ocr_confidence === null ? [] : [confidenceTerm(decileOf(ocr_confidence))]),
]

/** Maximum number of months in a term query. Longer ranges are checked in the rows only. */
const maxMonths = 24

/** Returns the terms for each range of a filter. Every match has one of them; some other documents have one too. */
export const rangeFilterTerms = ({ from, to, datedFrom, datedTo, minConfidence }: SearchFilter): string[][] => [
  ...(from && to ? monthTerms(monthOf(from), monthOf(to), monthTerm) : []),
  ...(datedFrom && datedTo ? monthTerms(monthOfDate(datedFrom), monthOfDate(datedTo), dateTerm) : []),
  ...(minConfidence === null ? [] : [range(decileOf(minConfidence), decileOf(1)).map(confidenceTerm)]),
]

/** Returns the terms of the months of a range; none if the range is long. */
function monthTerms(first: number, last: number, termOf: (month: number) => string): string[][] {
  if (last - first >= maxMonths) return []
  return [first > last ? [absentTerm] : range(first, last).map(termOf)]
}

const range = (first: number, last: number): number[] => Array.from({ length: Math.max(0, last - first + 1) }, (_, nth) => first + nth)

/** Lengths of consecutive periods, in months. The first ones hold enough matches of a frequent term. */
const spanLengths = [1, 3, 9, 27, 81]

/** Returns the month terms of consecutive periods from `at` on, backwards if `isBack`. `end`: the first moment after them. */
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
