/** Forms of dates in texts: ISO, numeric and with names of months. */
import { isCalendarDate } from '../../calendar.ts'
import { foldText } from './fold-text.ts'
import { isYearFirst, monthInAnyLanguage, monthOf } from './month-names.ts'

/** A date in a folded text. */
export interface DateMatch {
  /** Offsets in the text. */
  readonly start: number
  readonly end: number
  /** YYYY-MM-DD */
  readonly date: string
  readonly form: 'iso' | 'named' | 'numeric' | 'month'
  /** Day and month could be exchanged. */
  readonly isAmbiguous: boolean
  readonly hasShortYear: boolean
  /** 3.4.24: versions and sections of a text look the same. */
  readonly isVersionLike: boolean
  /** The month is named in none of the languages of the text. */
  readonly hasForeignName: boolean
}

const year4 = '1[6-9]\\d\\d|20\\d\\d'
/** Boundaries of a date: it is not part of a word, of a number, or of a longer number with separators. */
const from = '(?<![\\p{L}\\d]|\\d[./:-])'
/** `2024г.` ends with the Russian or Ukrainian word for a year. */
const to = '(?!(?![гр](?!\\p{L}))[\\p{L}\\d]|[./:,-]\\d)'
/** End of a date whose last part is the day: `24.`, `24-én`. */
const toDay = '(?![\\p{L}\\d]|[./:-]\\d)'
const month = '(\\p{L}{3,12})\\.?'
const of = "(?:(?:de|del|di|(?:day\\s+)?of|paivana)\\s+|d'|ב)?"
/** An `a` or `o` only as a letter of its own, unlike in `4 april`. Quotation marks as in `«24» декабря`. */
const ordinal = '(?:\\.|st|nd|rd|th|er|°|(?<=["“„«]\\s?\\d{1,2}\\s?)["”“»]|-?го|(?:os?|a)(?![a-z]))?'

/** Calendar year before the first one of an era. */
const eras: Readonly<Record<string, number>> = { 明治: 1867, 大正: 1911, 昭和: 1925, 平成: 1988, 令和: 2018, 民國: 1911, 民国: 1911 }
const eraYear = `(${Object.keys(eras).join('|')})\\s?(\\d{1,3}|元)`
/** Year, month and day in Chinese and Japanese, and in Korean, whose letters are decomposed in a folded text. */
const [cjkYear, cjkMonth, cjkDay] = ['年|년', '月|월', '日|일'].map((words) => `\\s?(?:${foldText(words)})`)

const forms = {
  iso: new RegExp(`${from}(${year4})([-/.])(\\d{1,2})\\2(\\d{1,2})(?![\\d]|[./:-]\\d)`, 'gu'),
  /** 2024-Mar-03 */
  yearMonthDay: new RegExp(`${from}(${year4})-(\\p{L}{3,12})-(\\d{1,2})${toDay}`, 'gu'),
  /** 3. März 2024, 3 de marzo de 2024, 3rd of March, 2024, 3rd day of March 2024, 3-Mar-24 */
  dayMonth: new RegExp(
    `${from}(\\d{1,2})\\s?${ordinal}[\\s-]{0,3}${of}${month},?[\\s-]{0,3}${of}(${year4}|'?\\d\\d(?!,?\\s?\\d))${to}`,
    'gu',
  ),
  /** March 3, 2024, and Mar  3 10:11:12 UTC 2024, as `date` prints it */
  monthDay: new RegExp(
    `${from}${month}\\s{1,2}(\\d{1,2})(?:st|nd|rd|th)?\\s?,?\\s{0,2}(?:\\d\\d:\\d\\d:\\d\\d (?:[a-z]{3,5} )?)?(${year4})${to}`,
    'gu',
  ),
  /** 2024. december 24., 2024 m. gruodžio 24 d. */
  yearFirst: new RegExp(`${from}(${year4})(?:\\.|\\s?m\\.)\\s{0,2}${month}\\s{1,2}(\\d{1,2})${toDay}`, 'gu'),
  /** 2024. 12. 24., 2024. 12. 24. 15:30 */
  spacedYearFirst: new RegExp(`${from}(${year4})\\.\\s(\\d{1,2})\\.\\s(\\d{1,2})(?:\\.(?!\\s?\\d(?!\\d?:))|(?!\\.)${toDay})`, 'gu'),
  /** 2024. gada 24. decembrī, 2024 ж. 24 желтоқсан */
  yearDayMonth: new RegExp(`${from}(${year4})\\.?\\s(?:gada|g\\.|ж\\.|жылғы)\\s(\\d{1,2})\\.?\\s${month}(?!\\p{L})`, 'gu'),
  /** 2024年12月24日, 令和6年12月24日, 2024년 12월 24일. Chinese has no spaces before it. */
  cjk: new RegExp(`(?<!\\d|\\d[./:-])(?:(${year4})|${eraYear})${cjkYear}\\s?(\\d{1,2})${cjkMonth}\\s?(\\d{1,2})${cjkDay}`, 'gu'),
  /** ngày 24 tháng 12 năm 2024 */
  vietnamese: new RegExp(`${from}(\\d{1,2})\\s+thang\\s+(\\d{1,2})(?:\\s+nam|,)\\s+(${year4})${to}`, 'gu'),
  /** 03.03.2024, 3/3/24, 03-03-2024 */
  numeric: new RegExp(`${from}(\\d{1,2})\\s?([./-])\\s?(\\d{1,2})\\s?\\2\\s?(${year4}|\\d\\d)${to}`, 'gu'),
  /** March 2024 */
  month: new RegExp(`(?<!(?:[-–—/&]|\\d)\\W{0,3})${from}${month},?\\s{1,2}${of}(${year4})${to}`, 'gu'),
  /** Stand: 03/2024. Without a word before it, numbers of invoices look the same. */
  numericMonth: new RegExp(`(?<=\\b(?:stand|as of)[\\s:(]{1,3})(0?[1-9]|1[0-2])[/.-](${year4})${to}`, 'gu'),
} as const

/** Languages whose texts often have years of another calendar: `67` is 2567 in Thai, the year 2024. */
const otherCalendars = new Set(['ara', 'fas', 'pus', 'tha'])

interface Options {
  /** Day that no date may exceed, YYYY-MM-DD. */
  readonly today: string
  /** Reads 03/04/2024 as March 4, unless another date of the text, such as 25/04/2024, has the day first. */
  readonly isMonthFirst: boolean
  /** Tesseract codes of the languages of the text; none if they are unknown. */
  readonly languages: readonly string[]
}

/** Returns the dates in a folded text in their order. Dates after today and overlapping ones are left out. */
export function findDates(text: string, { today, isMonthFirst, languages }: Options): DateMatch[] {
  const shownOrder = slashOrder(text)
  const order = shownOrder ?? (isMonthFirst ? 'month' : 'day')
  const hasOtherCalendar = languages.some((code) => otherCalendars.has(code))
  const matches: DateMatch[] = []
  const add = (
    match: RegExpExecArray,
    form: DateMatch['form'],
    parts: readonly [string, number | string | null, number | string],
    { isAmbiguous = false, isVersionLike = false, hasForeignName = false } = {},
  ) => {
    const date = parts[0].length < 4 && hasOtherCalendar ? null : toDate(parts, today)
    const start = match.index
    const end = start + match[0].length
    if (date && !matches.some((other) => start < other.end && other.start < end))
      matches.push({ start, end, date, form, isAmbiguous, hasShortYear: parts[0].length < 4, isVersionLike, hasForeignName })
  }
  /** Names of further languages need a year of four digits, and a day if they are not of the languages of the text. */
  const addNamed = (match: RegExpExecArray, year = '', name = '', day = '') => {
    const month = monthOf(name, year.length < 4 ? [] : languages)
    if (month !== null || year.length < 4) return add(match, 'named', [year, month, day])
    return add(match, 'named', [year, monthInAnyLanguage(name), day], { hasForeignName: true })
  }
  for (const match of text.matchAll(forms.iso)) add(match, 'iso', [match[1]!, match[3]!, match[4]!])
  for (const match of text.matchAll(forms.cjk))
    add(match, 'named', [match[1] ?? String(eras[match[2]!]! + Number(match[3]!.replace('元', '1'))), match[4]!, match[5]!])
  for (const match of text.matchAll(forms.vietnamese)) add(match, 'named', [match[3]!, match[2]!, match[1]!])
  for (const match of text.matchAll(forms.yearMonthDay)) addNamed(match, match[1], match[2], match[3])
  for (const match of text.matchAll(forms.yearFirst)) if (isYearFirst(languages)) addNamed(match, match[1], match[2], match[3])
  for (const match of text.matchAll(forms.spacedYearFirst))
    if (isYearFirst(languages)) add(match, 'numeric', [match[1]!, match[2]!, match[3]!])
  for (const match of text.matchAll(forms.yearDayMonth)) addNamed(match, match[1], match[3], match[2])
  for (const match of overlappingMatches(text, forms.dayMonth)) addNamed(match, match[3], match[2], match[1])
  for (const match of text.matchAll(forms.monthDay)) add(match, 'named', [match[3]!, monthOf(match[1]!, languages), match[2]!])
  for (const match of text.matchAll(forms.numeric)) {
    const [, first = '', separator, second = '', year = ''] = match
    const isVersionLike = year.length < 4 && (first.length < 2 || second.length < 2) && separator !== '/'
    const isDayFirst = separator === '.' || Number(first) > 12 || (Number(second) <= 12 && order === 'day')
    const isAmbiguous = separator !== '.' && Number(first) <= 12 && Number(second) <= 12 && first !== second && shownOrder === null
    add(match, 'numeric', isDayFirst ? [year, second, first] : [year, first, second], { isAmbiguous, isVersionLike })
  }
  for (const match of text.matchAll(forms.month)) add(match, 'month', [match[2]!, monthOf(match[1]!, languages), 1])
  for (const match of text.matchAll(forms.numericMonth)) add(match, 'month', [match[2]!, match[1]!, 1])
  return matches.sort((one, other) => one.start - other.start)
}

/** Yields the matches of a form that begins with a digit, also those within another: the second one in `5 pages 12 March 2024`. */
function* overlappingMatches(text: string, form: RegExp): Generator<RegExpExecArray> {
  const expression = new RegExp(form)
  for (let match = expression.exec(text); match; match = expression.exec(text)) {
    yield match
    expression.lastIndex = match.index + 1
  }
}

/** Returns which part comes first in the dates with slashes or hyphens of a text. Returns null if none has a number above 12. */
function slashOrder(text: string): 'day' | 'month' | null {
  for (const [, first, separator, second] of text.matchAll(forms.numeric)) {
    if (separator === '.') continue
    if (Number(first) > 12 && Number(second) <= 12) return 'day'
    if (Number(second) > 12 && Number(first) <= 12) return 'month'
  }
  return null
}

function toDate([year, month, day]: readonly [string, number | string | null, number | string], today: string): string | null {
  if (month === null) return null
  const short = year.replace("'", '')
  const century = Number(today.slice(0, 2)) - (Number(short) > Number(today.slice(2, 4)) ? 1 : 0)
  const full = short.length === 4 ? short : `${century}${short}`
  const date = `${full}-${String(month).padStart(2, '0')}-${String(day).padStart(2, '0')}`
  return isCalendarDate(date) && date <= today ? date : null
}
