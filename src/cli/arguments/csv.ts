/** Reading CSV (RFC 4180): what spreadsheets and directories write. */
import { unescapeFormula } from '../output/cells.ts'
import { usage } from '../runtime/exit.ts'

export interface CsvRecord {
  /** the line of the file that it begins on, from 1 */
  readonly line: number
  readonly fields: readonly string[]
}

/** The records of a text, without empty lines. The apostrophe that keeps a text from being a formula is taken off. Takes a byte order mark, any line end, line breaks in quotes; `;` or tabs where the first line has no comma. Throws Failure USAGE. */
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
      // A separator at the very end of the text: one more field, which is empty.
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

/** The offset behind the closing quote; doubled ones are inside. */
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
