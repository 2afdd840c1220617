/** Languages of a document, and languages of its pages without an OCR model. */
import { sql } from 'kysely'
import type { App } from '../../app.ts'
import type { Trx } from '../../db/pool.ts'
import type { DocumentWarning } from '../../db/schema-documents.ts'
import { dateOfText } from '../dates.ts'
import { pagesWithDocuments, pageText } from './page-text.ts'
import { maxWarningPages, replaceWarnings } from './warnings.ts'

/** Pages of a document in one language. */
interface PagesInLanguage {
  /** as in `document_pages` */
  language: string | null
  /** length of their text */
  characters: number
  /** numbers of the pages that OCR read */
  ocrPages: readonly number[]
}

/** Code of the warning about pages without a model. */
const languageMissing = 'language_missing'
/** Minimum share of the text for a language of the document. Detection errs on pages with few words. */
const minShare = 0.05
/** Language of a page in letters that no installed model reads. A hyphen and a script may follow. */
const undetermined = 'und'

/**
 * Returns the languages of a document, most frequent first. Returns a warning for each language that OCR could not read because its model is missing.
 */
export function languageColumns({ ocr }: App, groups: readonly PagesInLanguage[]) {
  const characters = new Map<string, number>()
  const missing = new Map<string, number[]>()
  for (const { language, characters: count, ocrPages } of groups) {
    const isUnknown = language?.startsWith(undetermined)
    for (const code of language?.split('+') ?? []) {
      if (!isUnknown) characters.set(code, (characters.get(code) ?? 0) + count)
      if (ocr && !ocr.languages.has(code) && ocrPages.length > 0) missing.set(code, [...(missing.get(code) ?? []), ...ocrPages])
    }
  }
  const total = [...characters.values()].reduce((sum, count) => sum + count, 0)
  const frequent = [...characters].filter(([, count]) => count >= total * minShare).sort(([, one], [, other]) => other - one)
  const warnings = [...missing].map(([code, pages]) =>
    missingWarning(code, pages.sort((one, other) => one - other).slice(0, maxWarningPages)),
  )
  return { detected_languages: frequent.map(([code]) => code), warnings }
}

/** Returns the columns of the languages of a document, and of the date that its text has. */
export async function languageAndDate(app: App, trx: Trx, id: string, content: string) {
  const { rows } = await sql<PagesInLanguage>`
    select page.language, sum(length(${pageText}))::int as characters,
      coalesce(array_agg(page.page order by page.page) filter (where source <> 'text_layer' and confidence is not null), '{}') as "ocrPages"
    from ${pagesWithDocuments} where document_id = ${id} group by page.language`.execute(trx)
  const { detected_languages, warnings } = languageColumns(app, rows)
  const date = await dateOfText(app, trx, id, content, detected_languages)
  return { detected_languages, warnings: replaceWarnings([languageMissing], warnings) as never, ...date }
}

function missingWarning(code: string, pages: number[]): DocumentWarning {
  const [language, script] = code.split('-')
  const warning = (subject: string) => ({ code: languageMissing, message: `There is no OCR model for ${subject}.`, pages }) as const
  if (script) return { ...warning(`${new Intl.DisplayNames(['en'], { type: 'script' }).of(script)} letters`), script }
  if (language === undetermined) return warning('the letters of this text')
  return { ...warning(`${new Intl.DisplayNames(['en'], { type: 'language' }).of(code) ?? code} (${code})`), language: code }
}
