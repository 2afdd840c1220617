/** Formats numbers of cells as spreadsheet programs show them. */
import { format, getFormatDateInfo, getFormatFromId } from 'numfmt'

/** Formats the number of a cell by the index of the cell style. */
export type CellFormatter = (value: number, style: number) => string

/** The number formats of a workbook. Format numbers without a code are built in (ECMA-376 part 1, 18.8.30). */
export interface CellStyles {
  /** codes by number */
  readonly codes: ReadonlyMap<number, string>
  /** format number of each cell style */
  readonly formats: readonly number[]
  /** Days count from 1904 instead of 1900. */
  readonly isFrom1904: boolean
}

/** Date formats that depend on the country of the reader. */
const shortDates: Readonly<Record<number, string>> = { 14: 'm/d/yy', 22: 'm/d/yy h:mm' }
const daysTo1904 = 1462
/** A duration, such as `[h]:mm`: the hours may exceed 24. */
const elapsedTime = /\[(h+|m+|s+)\]/i
/** Maximum length of a code in Excel is 255. */
const maxCodeLength = 300
/** Maximum number of formatted cells, which take two seconds. Further cells are plain numbers. */
const maxFormattedCells = 200_000

/** Returns a formatter. A date is followed by its ISO form, which is the same in every country: `17-May-07 2007-05-17`. */
export function createCellFormatter({ codes, formats, isFrom1904 }: CellStyles): CellFormatter {
  const shownParts = new Map<string, { hasDate: boolean; hasDay: boolean }>()
  let count = 0
  const partsOf = (code: string): { hasDate: boolean; hasDay: boolean } => {
    const known = shownParts.get(code)
    if (known) return known
    const { year, month, day } = getFormatDateInfo(code)
    // The library takes the minutes of `[h]:mm:ss` for months.
    const parts = { hasDate: (year || month || day) && !elapsedTime.test(code), hasDay: month && day }
    shownParts.set(code, parts)
    return parts
  }
  return (value, style) => {
    const id = formats[style] ?? 0
    const code = codes.get(id) ?? shortDates[id] ?? String(getFormatFromId(id) ?? '')
    if (code === '' || code.length > maxCodeLength || code === '@' || /^general$/i.test(code) || count++ >= maxFormattedCells)
      return formatNumber(value)
    try {
      const { hasDate, hasDay } = partsOf(code)
      const serial = hasDate && isFrom1904 ? value + daysTo1904 : value
      const text = format(code, serial).replace(/\s+/g, ' ').trim()
      if (!hasDay || value < 1) return text || formatNumber(value)
      const iso = toIsoDay(serial)
      return text.includes(iso) ? text : `${text} ${iso}`.trim()
    } catch {
      return formatNumber(value)
    }
  }
}

/** Formats a number with at most 15 digits: Excel stores 0.1 as 0.10000000000000001. */
function formatNumber(value: number): string {
  const rounded = Number(value.toPrecision(15))
  return Math.abs(rounded) < 1e15 ? String(rounded) : rounded.toExponential().toUpperCase()
}

/** Converts a day number since 1899-12-30; '' if it is out of range. */
function toIsoDay(serial: number): string {
  const time = new Date(Math.floor(serial - 25_569) * 86_400_000)
  return Number.isNaN(time.getTime()) || serial > 2_958_465 ? '' : time.toISOString().slice(0, 10)
}

/** Returns the text of a page header or footer without the codes for fonts and fields: `&L&"Arial"Draft&RPage &P`. */
export const pageHeaderText = (text: string): string =>
  text
    .replace(/&(?:"[^"]*"|K[0-9A-F]{6}|K\d\d[+-]\d{3}|\d{1,3}|[LCRPNDTFAZGBIUESXYOH]|(&))/gi, (code, ampersand) =>
      ampersand ? '&' : /^&[LCR]$/i.test(code) ? ' ' : '',
    )
    .trim()

/** Replaces the escapes of Open XML spreadsheets for characters that XML cannot hold: `_x000D_` (ECMA-376 part 1, 22.9.2.19). Ends lines with \n. */
export const decodeEscapes = (text: string): string =>
  text.replace(/_x([0-9a-f]{4})_/gi, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16))).replace(/\r\n?/g, '\n')
