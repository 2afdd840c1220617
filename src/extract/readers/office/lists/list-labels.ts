/** Labels of list items: `1.`, `b)`, `2.1.3`. Word, its old format and OpenDocument number lists alike. */

export interface ListLevel {
  readonly start: number
  /** name of ST_NumberFormat (ECMA-376 part 1, 17.18.59); unknown ones count in decimals */
  readonly format: string
  /** label with `%1` to `%9` for the numbers of the levels */
  readonly text: string
  /** Number of the level, from 1, whose items restart this one; 0: none does. Default: every outer level. */
  readonly restartAfter?: number | undefined
  /** All numbers in the label are decimals. */
  readonly isLegal?: boolean | undefined
}

export interface ListItem {
  /** Key of the counters: items with the same key are numbered consecutively. */
  readonly list: string
  readonly levels: ReadonlyMap<number, ListLevel>
  /** level of the item, from 0 */
  readonly level: number
  /** Starts of levels that take effect once, at the first item with this key. */
  readonly overrides?: { readonly key: string; readonly starts: ReadonlyMap<number, number> } | undefined
}

const maxLevels = 9
const maxLabelLength = 200

/** Returns a function that counts the items of all lists of a document and returns their labels; '' for bullets. */
export function createListCounters(): (item: ListItem) => string {
  const counters = new Map<string, (number | undefined)[]>()
  const applied = new Set<string>()
  return ({ list, levels, level, overrides }) => {
    const definition = levels.get(level)
    if (!definition || level < 0 || level >= maxLevels) return ''
    const numbers = counters.get(list) ?? []
    counters.set(list, numbers)
    const start = (at: number): number => levels.get(at)?.start ?? 1
    const override = overrides?.starts.get(level)
    const overrideKey = `${overrides?.key} ${level}`
    if (override !== undefined && !applied.has(overrideKey)) {
      applied.add(overrideKey)
      numbers[level] = override
    } else numbers[level] = (numbers[level] ?? start(level) - 1) + 1
    for (let outer = 0; outer < level; outer++) numbers[outer] ??= start(outer)
    for (let inner = level + 1; inner < maxLevels; inner++)
      if (level < (levels.get(inner)?.restartAfter ?? inner)) numbers[inner] = undefined
    if (definition.format === 'bullet') return ''
    const label = definition.text.replace(/%([1-9])/g, (_, digit: string) => {
      const at = Number(digit) - 1
      const format = definition.isLegal ? 'decimal' : (levels.get(at)?.format ?? 'decimal')
      return formatNumber(numbers[at] ?? start(at), format)
    })
    return label.slice(0, maxLabelLength)
  }
}

const ordinalRules = new Intl.PluralRules('en', { type: 'ordinal' })
const ordinalSuffixes: Readonly<Record<string, string>> = { one: 'st', two: 'nd', few: 'rd' }

/** Formats a number by a name of ST_NumberFormat. */
function formatNumber(number: number, format: string): string {
  if (format === 'lowerLetter') return letters(number)
  if (format === 'upperLetter') return letters(number).toUpperCase()
  if (format === 'upperRoman') return roman(number)
  if (format === 'lowerRoman') return roman(number).toLowerCase()
  if (format === 'decimalZero') return String(number).padStart(2, '0')
  if (format === 'ordinal') return `${number}${ordinalSuffixes[ordinalRules.select(number)] ?? 'th'}`
  return format === 'none' || format === 'bullet' ? '' : String(number)
}

/** Returns letters as Word counts: a to z, then aa to zz. */
const letters = (number: number): string =>
  number < 1 || number > 780 ? String(number) : String.fromCharCode(97 + ((number - 1) % 26)).repeat(Math.ceil(number / 26))

const romanDigits = Object.entries({ M: 1000, CM: 900, D: 500, CD: 400, C: 100, XC: 90, L: 50, XL: 40, X: 10, IX: 9, V: 5, IV: 4, I: 1 })

function roman(number: number): string {
  if (number < 1 || number > 4999) return String(number)
  let rest = number
  return romanDigits
    .map(([digit, value]) => {
      const count = Math.floor(rest / value)
      rest -= count * value
      return digit.repeat(count)
    })
    .join('')
}
