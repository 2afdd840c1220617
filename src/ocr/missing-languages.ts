/** Languages of documents for which no model is installed. */
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { codesOfScript } from './auto-language/codes.ts'
import { languageName } from './languages.ts'

export interface MissingLanguage {
  /** Tesseract code; null: unknown */
  readonly language: string | null
  /** ISO 15924 code of letters that no model reads; null: unknown */
  readonly script: string | null
  readonly documents: number
}

/** Returns the languages of warnings `language_missing`, most frequent first. */
export async function listMissing({ db }: Pick<App, 'db'>): Promise<MissingLanguage[]> {
  const { rows } = await sql<MissingLanguage>`
    select warning ->> 'language' as language, warning ->> 'script' as script, count(distinct id)::int as documents
    from live_documents, jsonb_array_elements(warnings) warning
    where warnings <> '[]' and warning ->> 'code' = 'language_missing' group by 1, 2 order by 3 desc, 1, 2`.execute(db)
  return rows
}

/** Describes missing languages, such as `Polish (2 documents), Cyrillic letters (1 document)`. */
export const describeMissing = (missing: readonly MissingLanguage[]): string =>
  missing.map((one) => `${nameOf(one)} (${one.documents} ${one.documents === 1 ? 'document' : 'documents'})`).join(', ')

function nameOf({ language, script }: MissingLanguage): string {
  if (language !== null) return languageName(language)
  return script === null ? 'unknown letters' : `${new Intl.DisplayNames(['en'], { type: 'script' }).of(script)} letters`
}

/** Returns a command that installs a missing model. */
export function installCommand({ language, script }: MissingLanguage, engine: 'tesseract-js' | 'tesseract-native'): string {
  const code = language ?? (script === null ? 'LANGUAGE' : (codesOfScript(script)[0] ?? 'LANGUAGE'))
  return engine === 'tesseract-native' ? `apt install tesseract-ocr-${code.replaceAll('_', '-')}` : `npm install @tesseract.js-data/${code}`
}
