/** CSV reader (RFC 4180). */
import { unescapeFormula } from '../output/cells.ts'
import { usage } from '../runtime/exit.ts'

export interface CsvRecord {
  /** number of the first line of the record, from 1 */
  readonly line: number
  readonly fields: readonly string[]
}

/** Parses CSV and skips empty lines. Accepts a byte order mark, any line end, and `;` or tabs where the first line has no comma. Throws Failure USAGE. */
export function parseCsv(text: string): CsvRecord[] {
  const content = text.replace(/^\ufeff/, '')
  const separator = separatorOf(content)
  const records: CsvRecord[] = []
  let line = 1
  let start = 1
  let fields: string[] = []
  for (let at = 0; at < content.length; ) {
    const isQuoted = content[at] === '"'
    const end = isQuoted ? closingQuote(content, at, line) : endOfPlain(content, at, separator)
    const field = isQuoted ? content.slice(at + 1, end - 1).replaceAll('""', '"') : content.slice(at, end)
    fields.push(unescapeFormula(field))
    line += breaksIn(field)
    at = end
    if (content[at] === separator) {
      at += 1
      // A separator at the end of the text is followed by one empty field.
      if (at === content.length) fields.push('')
      else continue
    } else if (at < content.length) {
      const lineEnd = /\r\n?|\n/y
      lineEnd.lastIndex = at
      if (!lineEnd.test(content)) throw usage(`line ${line}: something follows a closing quote`)
      at = lineEnd.lastIndex
      line += 1
    }
    if (fields.some((each) => each !== '')) records.push({ line: start, fields })
    fields = []
    start = line
  }
  return records
}

function separatorOf(content: string): string {
  const first = /^[^\r\n]*/.exec(content)?.[0] ?? ''
  return [',', ';', '\t'].find((separator) => first.includes(separator)) ?? ','
}

/** Returns the offset behind the closing quote. Doubled quotes are part of the field. */
function closingQuote(content: string, at: number, line: number): number {
  for (let end = content.indexOf('"', at + 1); end !== -1; end = content.indexOf('"', end + 2)) {
    if (content[end + 1] !== '"') return end + 1
  }
  throw usage(`line ${line}: a quote is not closed`)
}

function endOfPlain(content: string, at: number, separator: string): number {
  let end = at
  while (end < content.length && content[end] !== separator && content[end] !== '\n' && content[end] !== '\r') end += 1
  return end
}

const breaksIn = (field: string): number => field.match(/\r\n?|\n/g)?.length ?? 0
