/** Calendar dates as YYYY-MM-DD, without time and time zone. */

/** Returns whether a text is an existing day as YYYY-MM-DD. */
export function isCalendarDate(text: string): boolean {
  const time = /^\d{4}-\d\d-\d\d$/.test(text) && !text.startsWith('0000') ? Date.parse(`${text}T00:00:00Z`) : Number.NaN
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(text)
}

export interface Period {
  /** First day; null: no limit. */
  readonly from: string | null
  /** Last day; null: no limit. */
  readonly to: string | null
}

/**
 * Rewrites the European forms 24.12.2025, 12.2025 and 12/2025 as 2025-12-24 and 2025-12. Returns other texts as they are: 3/4/2025 can be in March
 * or April.
 */
export const normalizeDate = (text: string): string =>
  text.replace(/^(?:(?:(\d\d?)\.)?(\d\d?)\.|(\d\d?)\/)(\d{4})$/, (_, day?: string, month?: string, monthOnly?: string, year = '') =>
    [year, month ?? monthOnly, day].flatMap((part) => part?.padStart(2, '0') ?? []).join('-'),
  )

/** Parses a period: a year, month or day, or a range such as `2026-01..2026-03`, `2026-01..` or `..2026-03`. Returns null for other text. */
export function parsePeriod(value: string): Period | null {
  const [first = '', last = first, ...more] = value.split('..')
  if (more.length > 0 || (first === '' && last === '')) return null
  const begin = first === '' ? null : daysOf(first)
  const end = last === '' ? null : daysOf(last)
  return begin === undefined || end === undefined ? null : { from: begin?.[0] ?? null, to: end?.[1] ?? null }
}

/** Returns the first and the last day of a year, month or day. */
function daysOf(text: string): [string, string] | undefined {
  const [, year, month, day] = /^(\d{4})(?:-(\d\d)(?:-(\d\d))?)?$/.exec(normalizeDate(text)) ?? []
  const first = `${year}-${month ?? '01'}-${day ?? '01'}`
  if (!isCalendarDate(first)) return undefined
  if (day !== undefined) return [first, first]
  if (month === undefined) return [first, `${year}-12-31`]
  // Not Date.UTC(), which takes the years 0 to 99 for 1900 to 1999.
  const last = ['31', '30', '29'].map((day) => `${year}-${month}-${day}`).find(isCalendarDate)
  return [first, last ?? `${year}-${month}-28`]
}
