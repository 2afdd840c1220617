/** Names of months: of seven languages, which apply to all texts, and those of ICU for the language of the text. */
import { foldText } from './fold-text.ts'

/**
 * Names without accents, in lower case, by language. `/` separates spellings.
 * A name may be abbreviated to three letters or more; `mrt` and `mrz` are listed because they do not begin a name.
 */
const monthNames: Readonly<Record<string, string>> = {
  eng: 'january february march april may june july august september october november december',
  deu: 'januar/janner februar/feber marz/maerz/mrz april mai juni juli august september oktober november dezember',
  fra: 'janvier fevrier mars avril mai juin juillet aout septembre octobre novembre decembre',
  ita: 'gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre',
  nld: 'januari februari maart/mrt april mei juni juli augustus september oktober november december',
  por: 'janeiro fevereiro marco abril maio junho julho agosto setembro outubro novembro dezembro',
  spa: 'enero febrero marzo abril mayo junio julio agosto septiembre/setiembre octubre noviembre diciembre',
}

/** Genitives, which dates have in these languages. ICU has the nominatives only. */
const genitives: Readonly<Record<string, string>> = {
  sl: 'januarja februarja marca aprila maja junija julija avgusta septembra oktobra novembra decembra',
  'sr-Latn': 'januara februara marta aprila maja juna jula avgusta septembra oktobra novembra decembra',
  bs: 'januara februara marta aprila maja juna jula augusta septembra oktobra novembra decembra',
  sr: 'јануара фебруара марта априла маја јуна јула августа септембра октобра новембра децембра',
}

/** Languages whose full names are found in texts of other languages, too: those that can be detected, as locales of ICU. */
const otherLocales =
  'am ar az be bg bn bs ca cs da el et eu fa fi fil gu he hi hr hu hy id is ja ka kn ko ku lo lt lv ml mr ms no or pa pl ro ru sk sl sq sr sr-Latn sv ta te th tr uk ur vi'

type NamedMonth = readonly [name: string, month: number]
/** Month by name; null for a name that two months have. */
type Months = ReadonlyMap<string, number | null>

interface LocaleNames {
  readonly full: Months
  readonly short: Months
  /** Beginnings of the full names, of three letters or more. */
  readonly prefixes: Months
  /** Dates begin with the year, as in Hungarian. */
  readonly isYearFirst: boolean
}

const spellings = (names: string): NamedMonth[] =>
  names.split(' ').flatMap((each, index) => each.split('/').map((name): NamedMonth => [foldText(name), index + 1]))

const tableNames = Object.values(monthNames).flatMap(spellings)
const tableMonths = toMonths(tableNames)
const tablePrefixes = toPrefixes(tableNames)
const namesByLocale = new Map<string, LocaleNames | null>()
let otherMonths: Months | null = null

/**
 * Returns the month, 1 to 12, of a folded name or its abbreviation; null for other words, and for those of two months (`jui`).
 * `languages`: Tesseract codes of the text. They decide names of two months: `listopad` is October in Croatian and November in Polish.
 */
export function monthOf(word: string, languages: readonly string[]): number | null {
  const names = languages.flatMap((code) => namesOfLanguage(code) ?? [])
  const full = names.map((each) => each.full)
  const exact = lookUp(word, [tableMonths, ...full]) ?? lookUp(word, full)
  if (exact !== null) return exact
  const short = names.map((each) => each.short)
  const prefixes = names.map((each) => each.prefixes)
  return lookUp(word, short) ?? lookUp(word, [tablePrefixes]) ?? lookUp(word, prefixes)
}

/** Returns the month of a full name in any language that can be detected; null for other words and for names of two months. */
export function monthInAnyLanguage(word: string): number | null {
  otherMonths ??= toMonths(otherLocales.split(' ').flatMap((locale) => (isKnown(locale) ? namesInDates(locale, 'long') : [])))
  return word.length < minOtherLength ? null : (otherMonths.get(word) ?? null)
}
const minOtherLength = 4

/** Returns whether dates of a text can begin with the year. `languages`: Tesseract codes; none if they are unknown. */
export const isYearFirst = (languages: readonly string[]): boolean =>
  languages.length === 0 || languages.some((code) => namesOfLanguage(code)?.isYearFirst)

function namesOfLanguage(code: string): LocaleNames | null {
  const [language = '', script] = code.split('_')
  if (language in monthNames || !/^[a-z]{2,3}$/.test(language)) return null
  const isScript = script === 'latn' || script === 'cyrl'
  return namesOfLocale(new Intl.Locale(language, isScript ? { script } : {}).toString())
}

/** Returns the names of a locale, which takes 2 ms the first time; null if ICU does not know it. */
function namesOfLocale(locale: string): LocaleNames | null {
  const cached = namesByLocale.get(locale)
  if (cached !== undefined) return cached
  const names = isKnown(locale) ? readNames(locale) : null
  namesByLocale.set(locale, names)
  return names
}

const isKnown = (locale: string): boolean => Intl.DateTimeFormat.supportedLocalesOf(locale).length > 0

const options = { calendar: 'gregory', numberingSystem: 'latn', timeZone: 'UTC' } as const

function readNames(locale: string): LocaleNames {
  const names = fullNames(locale)
  const parts = new Intl.DateTimeFormat(locale, { ...options, dateStyle: 'long' }).formatToParts(0)
  return {
    full: toMonths(names),
    prefixes: toPrefixes(names),
    short: toMonths([...readMonths(locale, { month: 'short' }), ...namesInDates(locale, 'short')]),
    isYearFirst: parts.find(({ type }) => type !== 'literal')?.type === 'year',
  }
}

const fullNames = (locale: string): NamedMonth[] => [...readMonths(locale, { month: 'long' }), ...namesInDates(locale, 'long')]

/** Returns the names that stand in dates: `24 grudnia`, but `grudzień` alone. */
const namesInDates = (locale: string, month: 'long' | 'short'): NamedMonth[] => [
  ...readMonths(locale, { month, day: 'numeric', year: 'numeric' }),
  ...(month === 'long' && genitives[locale] ? spellings(genitives[locale]) : []),
]

function readMonths(locale: string, form: Intl.DateTimeFormatOptions): NamedMonth[] {
  const format = new Intl.DateTimeFormat(locale, { ...options, ...form })
  const names = Array.from({ length: 12 }, (_, index): NamedMonth => [nameIn(format, index), index + 1])
  return names.filter(([name]) => /^\p{L}{3,}$/u.test(name))
}

/** Returns the folded name of a month in a date, without the Catalan preposition and the mark of an abbreviation. */
function nameIn(format: Intl.DateTimeFormat, index: number): string {
  const name = format.formatToParts(Date.UTC(2024, index, 24)).find(({ type }) => type === 'month')?.value ?? ''
  return foldText(name).replace(/^(?:de |d')|[.׳॰]$/g, '')
}

function toMonths(entries: readonly NamedMonth[]): Months {
  const months = new Map<string, number | null>()
  for (const [name, month] of entries) months.set(name, months.has(name) && months.get(name) !== month ? null : month)
  return months
}

function toPrefixes(names: readonly NamedMonth[]): Months {
  return toMonths(
    names.flatMap(([name, month]) =>
      Array.from({ length: Math.max(0, name.length - 2) }, (_, index) => [name.slice(0, index + 3), month] as const),
    ),
  )
}

/** Returns the month that a name has in all maps that know it; null if they differ or none knows it. */
function lookUp(name: string, maps: readonly Months[]): number | null {
  const months = new Set(maps.flatMap((map) => map.get(name) ?? []))
  return months.size === 1 ? [...months][0]! : null
}
