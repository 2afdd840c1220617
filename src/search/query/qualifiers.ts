/** Separates the filters of a query (`type:pdf`) from its words, and warns of probable mistakes. */
import { normalizeDate, type Period, parsePeriod } from '../../calendar.ts'
import type { DocumentStatus } from '../../db/schema-documents.ts'
import { collectWords, divideQuery } from './query-words.ts'

export interface ParsedQuery {
  /** the query without its filters: words, "phrases", -not, OR, title:word */
  text: string
  types: string[]
  notTypes: string[]
  /** names or ids, as typed */
  labels: string[]
  notLabels: string[]
  status: DocumentStatus[]
  owner: string | null
  /** range of the document date, YYYY-MM-DD */
  datedFrom: string | null
  datedTo: string | null
  /** range of the time of arrival */
  from: Date | null
  to: Date | null
  /** the query has a filter */
  isFiltered: boolean
  warnings: string[]
}

/** Media types by short name. */
const families: Readonly<Record<string, readonly string[]>> = {
  pdf: ['application/pdf'],
  image: ['image/*'],
  jpg: ['image/jpeg'],
  jpeg: ['image/jpeg'],
  png: ['image/png'],
  tiff: ['image/tiff'],
  text: ['text/*'],
  txt: ['text/plain'],
  html: ['text/html'],
  csv: ['text/csv'],
  mail: ['message/rfc822', 'application/vnd.ms-outlook'],
  word: [
    'application/msword',
    'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
    'application/vnd.oasis.opendocument.text',
  ],
  excel: [
    'application/vnd.ms-excel',
    'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
    'application/vnd.oasis.opendocument.spreadsheet',
  ],
  powerpoint: [
    'application/vnd.ms-powerpoint',
    'application/vnd.openxmlformats-officedocument.presentationml.presentation',
    'application/vnd.oasis.opendocument.presentation',
  ],
}
const mimeType = /^[\w.+-]{1,100}\/(?:[\w.+-]{1,150}|\*)$/
export const statuses: readonly DocumentStatus[] = ['pending', 'processing', 'completed', 'failed']

type Draft = Omit<ParsedQuery, 'text' | 'isFiltered'>

type Qualifier = (draft: Draft, value: string, isNegated: boolean) => void

const qualifiers: Readonly<Record<string, Qualifier>> = {
  type: (draft, value, isNegated) => (isNegated ? draft.notTypes : draft.types).push(...typesOf(draft, value)),
  label: (draft, value, isNegated) => (isNegated ? draft.notLabels : draft.labels).push(value),
  status: (draft, value, isNegated) => {
    if (isNegated) return warnNegated(draft, 'status')
    for (const one of value.toLowerCase().split(',')) {
      if (statuses.includes(one as DocumentStatus)) draft.status.push(one as DocumentStatus)
      else draft.warnings.push(`status:${one} is none of ${statuses.join(', ')}: ignored`)
    }
  },
  owner: (draft, value, isNegated) => {
    if (isNegated) return warnNegated(draft, 'owner')
    if (draft.owner !== null && draft.owner !== value) draft.warnings.push(`owner:${draft.owner} is ignored: only the last owner counts`)
    draft.owner = value
  },
  date: (draft, value, isNegated) => {
    const period = periodOf(draft, 'date', value, isNegated)
    draft.datedFrom = latest(draft.datedFrom, period?.from ?? null)
    draft.datedTo = earliest(draft.datedTo, period?.to ?? null)
  },
  added: (draft, value, isNegated) => {
    const { from = null, to = null } = periodOf(draft, 'added', value, isNegated) ?? {}
    draft.from = latest(draft.from, from === null ? null : new Date(`${from}T00:00:00.000Z`))
    draft.to = earliest(draft.to, to === null ? null : new Date(`${to}T23:59:59.999Z`))
  },
}

/** Kinds of periods by the length of their ISO form. */
const periodNames: Readonly<Record<number, string>> = { 4: 'year', 7: 'month', 10: 'day' }

/** Parses the period of a filter. Warns of mistakes. */
function periodOf(draft: Draft, field: string, value: string, isNegated: boolean): Period | null {
  if (isNegated) {
    warnNegated(draft, field)
    return null
  }
  const period = parsePeriod(value)
  const absent = value.split('..').find((part) => /^\d{4}(-\d\d){0,2}$/.test(normalizeDate(part)) && !parsePeriod(part))
  if (absent) draft.warnings.push(`${field}:${value}: the ${periodNames[normalizeDate(absent).length]} ${absent} does not exist: ignored`)
  else if (!period)
    draft.warnings.push(
      `${field}:${value} is not of the form 2026, 2026-03, 2026-03-17, 17.3.2026, or two of them with .. between: ignored`,
    )
  else if (period.from && period.to && period.from > period.to)
    draft.warnings.push(`${field}:${value} ends before it begins: no document matches`)
  return period
}

/** Returns the qualifier of a field, which is user input and may be __proto__. */
const qualifierOf = (field: string): Qualifier | undefined => (Object.hasOwn(qualifiers, field) ? qualifiers[field] : undefined)

const warnNegated = (draft: Draft, field: string): void => void draft.warnings.push(`-${field}: is not supported: ignored`)

/** Parses the filters of a query. There are no syntax errors: `warnings` describe mistakes. */
export function parseQualifiers(query: string): ParsedQuery {
  const draft: Draft = {
    types: [],
    notTypes: [],
    labels: [],
    notLabels: [],
    status: [],
    owner: null,
    datedFrom: null,
    datedTo: null,
    from: null,
    to: null,
    warnings: [],
  }
  const words = collectWords(
    (field) => qualifierOf(field) !== undefined,
    (warning) => draft.warnings.push(warning),
  )
  let isFiltered = false
  for (const item of divideQuery(query)) {
    if (item.isUnclosed) draft.warnings.push('a quotation mark is not closed: the phrase extends to the end')
    const qualifier = item.value === '' ? undefined : qualifierOf(item.field)
    if (!qualifier) {
      words.add(item)
      continue
    }
    qualifier(draft, item.value, item.isNegated)
    words.passFilter()
    isFiltered = true
  }
  return { ...draft, text: words.end(), isFiltered }
}

function typesOf(draft: Draft, value: string): string[] {
  return value
    .toLowerCase()
    .split(',')
    .flatMap((one) => {
      const types = Object.hasOwn(families, one) ? families[one] : undefined
      if (types) return types
      if (mimeType.test(one)) return [one]
      draft.warnings.push(`type:${one} is neither a media type nor one of ${Object.keys(families).join(', ')}: ignored`)
      return []
    })
}

/** Returns the later of two dates; null: no limit. */
export const latest = <T extends Date | string>(one: T | null, other: T | null): T | null =>
  one === null || (other !== null && other > one) ? other : one
/** Returns the earlier of two dates; null: no limit. */
export const earliest = <T extends Date | string>(one: T | null, other: T | null): T | null =>
  one === null || (other !== null && other < one) ? other : one
