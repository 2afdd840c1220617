/** Forms of dates in texts: ISO, numeric and with names of months. */
import { isCalendarDate } from '../../calendar.ts'

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
}

/**
 * Names of the months without accents, in lower case, by language. `/` separates spellings.
 * A name may be abbreviated to three letters or more; `mrt` and `mrz` are listed because they do not begin a name.
 */
const monthNames = {
  eng: 'january february march april may june july august september october november december',
  deu: 'januar/janner februar/feber marz/maerz/mrz april mai juni juli august september oktober november dezember',
  fra: 'janvier fevrier mars avril mai juin juillet aout septembre octobre novembre decembre',
  ita: 'gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre',
  nld: 'januari februari maart/mrt april mei juni juli augustus september oktober november december',
  por: 'janeiro fevereiro marco abril maio junho julho agosto setembro outubro novembro dezembro',
  spa: 'enero febrero marzo abril mayo junio julio agosto septiembre/setiembre octubre noviembre diciembre',
}

const monthByName = new Map(
  Object.values(monthNames).flatMap((names) =>
    names.split(' ').flatMap((spellings, index) => spellings.split('/').map((name): [string, number] => [name, index + 1])),
  ),
)

/** Returns the month, 1 to 12, of a name or its abbreviation; null for other words and for abbreviations of two months (`jui`). */
function monthOf(word: string): number | null {
  const exact = monthByName.get(word)
  if (exact !== undefined) return exact
  const months = new Set([...monthByName].flatMap(([name, month]) => (word.length >= 3 && name.startsWith(word) ? [month] : [])))
  return months.size === 1 ? [...months][0]! : null
}

/** Returns the text as findDates() expects it: in lower case, without accents and compatibility forms. */
export const foldText = (text: string): string =>
  text
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .replace(/[\u2010-\u2012]/g, '-')
    .replace(/[\u2018\u2019]/g, "'")

const year4 = '1[6-9]\\d\\d|20\\d\\d'
/** Boundaries of a date: it is not part of a word, of a number, or of a longer number with separators. */
const from = '(?<![\\p{L}\\d]|\\d[./:-])'
const to = '(?![\\p{L}\\d]|[./:,-]\\d)'
const month = '([a-z]{3,10})\\.?'
const of = "(?:(?:de|del|di|(?:day\\s+)?of)\\s+|d')?"
/** An `a` or `o` only as a letter of its own, unlike in `4 april`. */
const ordinal = '(?:\\.|st|nd|rd|th|er|°|(?:os?|a)(?![a-z]))?'

const forms = {
  iso: new RegExp(`${from}(${year4})([-/.])(\\d{1,2})\\2(\\d{1,2})(?![\\d]|[./:-]\\d)`, 'gu'),
  /** 2024-Mar-03 */
  yearMonthDay: new RegExp(`${from}(${year4})-([a-z]{3,10})-(\\d{1,2})(?![\\p{L}\\d]|[./:-]\\d)`, 'gu'),
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
  /** 03.03.2024, 3/3/24, 03-03-2024 */
  numeric: new RegExp(`${from}(\\d{1,2})\\s?([./-])\\s?(\\d{1,2})\\s?\\2\\s?(${year4}|\\d\\d)${to}`, 'gu'),
  /** March 2024 */
  month: new RegExp(`(?<!(?:[-–—/&]|\\d)\\W{0,3})${from}${month},?\\s{1,2}${of}(${year4})${to}`, 'gu'),
  /** Stand: 03/2024. Without a word before it, numbers of invoices look the same. */
  numericMonth: new RegExp(`(?<=\\b(?:stand|as of)[\\s:(]{1,3})(0?[1-9]|1[0-2])[/.-](${year4})${to}`, 'gu'),
} as const

interface Options {
  /** Day that no date may exceed, YYYY-MM-DD. */
  readonly today: string
  /** Reads 03/04/2024 as March 4, unless another date of the text, such as 25/04/2024, has the day first. */
  readonly isMonthFirst: boolean
}

/** Returns the dates in a folded text in their order. Dates after today and overlapping ones are left out. */
export function findDates(text: string, { today, isMonthFirst }: Options): DateMatch[] {
  const shownOrder = slashOrder(text)
  const order = shownOrder ?? (isMonthFirst ? 'month' : 'day')
  const matches: DateMatch[] = []
  const add = (
    match: RegExpExecArray,
    form: DateMatch['form'],
    parts: readonly [string, number | string | null, number | string],
    { isAmbiguous = false, isVersionLike = false } = {},
  ) => {
    const date = toDate(parts, today)
    const start = match.index
    const end = start + match[0].length
    if (date && !matches.some((other) => start < other.end && other.start < end))
      matches.push({ start, end, date, form, isAmbiguous, hasShortYear: parts[0].length < 4, isVersionLike })
  }
  for (const match of text.matchAll(forms.iso)) add(match, 'iso', [match[1]!, match[3]!, match[4]!])
  for (const match of text.matchAll(forms.yearMonthDay)) add(match, 'named', [match[1]!, monthOf(match[2]!), match[3]!])
  for (const match of text.matchAll(forms.dayMonth)) add(match, 'named', [match[3]!, monthOf(match[2]!), match[1]!])
  for (const match of text.matchAll(forms.monthDay)) add(match, 'named', [match[3]!, monthOf(match[1]!), match[2]!])
  for (const match of text.matchAll(forms.numeric)) {
    const [, first = '', separator, second = '', year = ''] = match
    const isVersionLike = year.length < 4 && (first.length < 2 || second.length < 2) && separator !== '/'
    const isDayFirst = separator === '.' || Number(first) > 12 || (Number(second) <= 12 && order === 'day')
    const isAmbiguous = separator !== '.' && Number(first) <= 12 && Number(second) <= 12 && first !== second && shownOrder === null
    add(match, 'numeric', isDayFirst ? [year, second, first] : [year, first, second], { isAmbiguous, isVersionLike })
  }
  for (const match of text.matchAll(forms.month)) add(match, 'month', [match[2]!, monthOf(match[1]!), 1])
  for (const match of text.matchAll(forms.numericMonth)) add(match, 'month', [match[2]!, match[1]!, 1])
  return matches.sort((one, other) => one.start - other.start)
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
