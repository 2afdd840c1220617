/** Finds the date of a document in its text. Rates each date by the words around it and by its position. */
import { type DateMatch, findDates } from './date-forms.ts'
import { allPatterns, type Patterns, patternsOf, untilAfter } from './date-words.ts'
import { foldText } from './fold-text.ts'

export interface FoundDate {
  /** YYYY-MM-DD */
  readonly date: string
  /** 0 to 1 */
  readonly confidence: number
}

/** Characters of the text that are searched: the head of the first page. */
export const searchedLength = 4000
/** Number of characters before a date that are searched for words about its meaning. */
const contextLength = 48
const minConfidence = 0.45
/** Texts about computers count time from this day. */
const epoch = '1970-01-01'

const baseScores = { named: 0.62, iso: 0.6, numeric: 0.58, month: 0.32 } as const

/** Words before the date of a document. */
const dateWords =
  /\b(?:date|dated|date[ds]? of issue|(?:date|data|fecha)(?: d[aeiou]l?| della)? (?:la |l')?(?:factur\w*|fatt?ura|document\w*|redaction|delivrance|signature|creation)|datum|\w*datum|data|fecha|fait|emissao|emision|emissione|expedida|ausgestellt|stand|den|le|li|published|veroffentlicht|publie|issued|sent|gesendet|envoye|inviato|verzonden|enviado|erstellt am|(?:dated|published|issued|sent|signed|created|written) on)\b[\s:.,)'|(-]{0,8}$/
/** Words before the month of a document. Before a day they begin sentences: `As of May 1, 2024, the price is`. */
const monthWords = /(?:^\W*|[,(]\s?)as of[\s:]{1,3}$/
/** Words before dates that are never the date of the document. */
const otherWords =
  /\b(?:geb|geboren\w*|geburts\w*|born|birth\w*|dob|nee?|naissance|nat[oa]|nascita|geboorte\w*|nascid[oa]|nascimento|nacid[oa]|nacimiento|died|gestorben|mort|deceased|sterbe(?:datum|tag)|fae?llig\w*|zahlbar|zahlungsziel|due|payable|pay by|echeance|a payer|scadenza|scad|verval\w*|uiterlijk|vencimento|vencimiento|pagar|betaal(?:datum|termijn)|betalen|limite|deadline|frist|gultig bis|valid until|valid to|valid thru|valable jusqu\w*|valido fino\w*|geldig tot|valido ate|valido hasta|validade|validez|expir\w*|ablauf\w*|verfall\w*|\w*haltbar\w*|before|bis zum|bis spatestens|no later than|avant le|entro il)\b[^\n]{0,24}$/
/** Words that end a period or set a deadline directly before a date. */
const untilWords = /\b(?:bis|until|till|jusqu'?au?|entro|fino al?|hasta|ate|tot)\s{1,3}(?:(?:zum|le|il|el|o|en met)\s)?$/
/** Names of dates of an order or a delivery. They count as weak, although they end like the name of the date of the document. */
const weakNames =
  /\b(?:(?:order|delivery|shipping|shipment|service|start|end|print(?:ed)?)[ -]?date|(?:liefer|bestell?|leistungs|druck|lever(?:ings)?)-?datum)\b[\s:.,)'|(-]{0,8}$/
/** Names of dates in the head of a table. */
const columnNames =
  /\b(?:\w*datum|(?:[a-z]+ )?date|data(?: [a-z]+)?|fecha(?: de)?(?: [a-z]+)?|fallig(?: am)?|zahlbar bis|due|echeance|scadenza|vencimento|valid until)\b/g
/** Words before dates of other events, and of other documents. */
const weakWords =
  /\b(?:liefer\w*|lever\w*|leistung\w*|delivery|shipping|shipment|service|delivered|livraison|consegna|levering|entrega|bestel\w*|order(?:ed)?|commande|ordine|pedido|eintritt\w*|period\w*|zeitraum|from|since|seit|ab|a partir|depuis|schreiben|anfrage|letter of|lettre du|act of|loi|gesetz|law|decret\w*|copyright|printed|gedruckt|next|revised|version|eff|effective)\b[^\n]{0,16}$/
/** Words that join the ends of a time span. */
const spanWords = /^\s*(?:-|–|—|to|bis|au|al?|tot|t\/m|ate|hasta|through|until|till|thru|and|und|et|e|y|en)\s*(?:zum|le|il|el|the|o)?\s*$/
/** A line with a place and a date only: `Berlin, den 3. März 2024`, `Madrid, a 3 de marzo de 2024`. */
const placeBefore = /^[\p{L} .'’/-]{2,40},\s*(?:den|le|the|li|il|a|el|em|dd\.?|dnia|dne|dna|dana)?\s*$/u
/** What follows the date of a letter: the end of its paragraph, and another paragraph. A version in a list has none: `Apache, 2.4.12`. */
const endsParagraph = /^[^\n]{0,8}\n[^\S\n]*\n\s*\S/
/** Words for a year or day that end a date: `24. prosinca 2024. godine`, `2024 m. gruodžio 24 d.` */
const yearWordAfter = /^\.?\s?(?:г(?:ода?)?|р(?:оку)?|године|godine|god|leta|roku|r|d|aasta|թ)?\.?(?!\p{L})/u
const weekdayBefore = /^(?:[\p{L}-]{2,12}[.,]?\s*)?$/u

/** Returns the most probable date of a document with its confidence; null without a probable one. `language`: Tesseract codes joined by `+`. `today`: YYYY-MM-DD. */
export function findDate(content: string, language: string, today: string): FoundDate | null {
  const text = foldText(content.slice(0, searchedLength))
  const isMonthFirst = /^eng\b/.test(language)
  const languages = language.split('+').filter((code) => code !== '')
  const matches = findDates(text, { today, isMonthFirst, languages })
  let best: FoundDate | null = null
  const languagePatterns = patternsOf(languages)
  for (const [index, match] of matches.entries()) {
    const confidence = score(text, matches, index, match.hasForeignName ? allPatterns : languagePatterns)
    if (confidence >= minConfidence && confidence > (best?.confidence ?? 0)) best = { date: match.date, confidence }
  }
  return best && { ...best, confidence: Math.round(Math.min(best.confidence, 0.99) * 100) / 100 }
}

/** Rates a date. `patterns`: those of further languages. */
function score(text: string, matches: readonly DateMatch[], index: number, patterns: readonly Patterns[]): number {
  const { start, end, date, form, isAmbiguous, hasShortYear, isVersionLike } = matches[index]!
  const previous = matches[index - 1]
  const next = matches[index + 1]
  const context = text.slice(Math.max(0, start - contextLength, previous?.end ?? 0), start)
  const lineStart = text.lastIndexOf('\n', start - 1) + 1
  const lineEnd = text.indexOf('\n', end)
  const before = text.slice(Math.max(lineStart, previous?.end ?? 0), start)
  const after = text
    .slice(end, lineEnd < 0 ? undefined : lineEnd)
    .replace(yearWordAfter, '')
    .trim()
  // The label can be in the line above, such as in forms.
  const label =
    columnName(text, matches, index) ??
    (before.trim() === '' ? context.trimEnd() : context.slice(Math.max(0, context.length - before.length)))
  if (otherWords.test(label) || untilWords.test(label) || untilAfter.test(text.slice(end, end + contextLength))) return 0
  if (patterns.some(({ other, until }) => other.test(label) || until.test(label))) return 0
  const isSpan = (previous && spanWords.test(text.slice(previous.end, start))) || (next && spanWords.test(text.slice(end, next.start)))
  const isWeak = patterns.some(({ weak }) => weak.test(label))
  const isLabelled =
    (dateWords.test(label) && !weakNames.test(label)) ||
    (form === 'month' && monthWords.test(label)) ||
    (!isWeak && patterns.some(({ date }) => date.test(label)))
  const isLetter = placeBefore.test(before) && after.length <= 2 && (!isVersionLike || endsParagraph.test(text.slice(end)))
  if (date === epoch && !isLabelled && !isLetter) return 0
  const isAlone = weekdayBefore.test(before.trimStart()) && after.length <= 8 && (previous?.end ?? 0) <= lineStart
  return (
    baseScores[form] +
    (isLabelled ? 0.22 : 0) +
    (isLetter ? 0.22 : 0) +
    (isAlone && !isLetter ? 0.12 : 0) +
    0.1 * (1 - start / searchedLength) +
    (start < 600 ? 0.04 : 0) -
    (isSpan ? 0.3 : 0) -
    (isWeak || (!isLabelled && weakWords.test(label)) ? 0.2 : 0) -
    (isAmbiguous ? 0.2 : 0) -
    (hasShortYear ? 0.15 : 0) -
    (isVersionLike ? 0.3 : 0) -
    (date < '1900' ? 0.2 : 0)
  )
}

/** Returns the name of the column of a date that has others beside it, if the line above has as many names as there are dates; otherwise null. */
function columnName(text: string, matches: readonly DateMatch[], index: number): string | null {
  const { start } = matches[index]!
  const lineStart = text.lastIndexOf('\n', start - 1) + 1
  const lineEnd = text.indexOf('\n', start)
  const onLine = matches.filter((match) => match.start >= lineStart && (lineEnd < 0 || match.end <= lineEnd))
  if (lineStart === 0 || onLine.length < 2) return null
  const head = text.slice(text.lastIndexOf('\n', lineStart - 2) + 1, lineStart - 1)
  const names = head.match(columnNames) ?? []
  return names.length === onLine.length ? names[onLine.indexOf(matches[index]!)]! : null
}
