/** Settings of users, with defaults from the configuration. */
import { z } from 'zod'
import type { Actor } from '../actor.ts'
import type { App } from '../app.ts'
import type { Db } from '../db/pool.ts'
import type { Row } from '../db/schema.ts'
import { compileStatement, shareStatement } from '../db/statements.ts'
import { AppError, invalid } from '../errors.ts'
import type { PageInput, PageRequest } from '../http/pages.ts'
import { autoLanguage } from '../ports/ocr-engine.ts'

export interface Settings {
  theme: 'light' | 'dark' | 'system'
  /** a BCP 47 tag */
  language: string
  notifications_enabled: boolean
  /** OCR language of uploads that name none: `auto`, an installed code, or several joined by `+` */
  ocr_default_language: string
  /** page size of lists without `per_page` */
  items_per_page: number
}

/** Returns the actor's settings; the defaults for the operator. */
export async function get(app: App, actor: Actor): Promise<Settings> {
  const [row] = await shareSettings(app.reads, actor.id)
  return withDefaults(app, row)
}

const selectSettings = compileStatement((db: Db, id: string | null) => db.selectFrom('user_settings').selectAll().where('user_id', '=', id))
const shareSettings = shareStatement(selectSettings)

/** Maximum that a user can choose. `limits.per_page_default` may be higher. */
const maxItemsPerPage = 100

/** Updates settings and returns all. Throws USER_NOT_FOUND for the operator, VALIDATION_ERROR for a new OCR language that is not installed. */
export async function update(app: App, actor: Actor, fields: Partial<Settings>): Promise<Settings> {
  if (actor.id === null) throw new AppError('USER_NOT_FOUND')
  const before = withDefaults(app, (await selectSettings(app.db, actor.id))[0])
  // A client may send the settings as it read them: with a language whose model was removed, or a configured page above the maximum.
  const { items_per_page, ...others } = fields
  const { ocr_default_language: language } = others
  if (language !== undefined && language !== before.ocr_default_language) await checkLanguage(app, language, 'ocr_default_language')
  const isTooMany = items_per_page !== undefined && items_per_page > maxItemsPerPage
  if (isTooMany && items_per_page !== before.items_per_page) throw invalid('items_per_page', `${maxItemsPerPage} or less`)
  const changes = isTooMany ? others : fields
  const row = await app.db
    .insertInto('user_settings')
    .values({ user_id: actor.id, ...changes })
    .onConflict((conflict) => conflict.column('user_id').doUpdateSet({ user_id: actor.id as string, ...changes }))
    .returningAll()
    .executeTakeFirstOrThrow()
  return withDefaults(app, row)
}

/** Returns the requested page, with the page size of the request or of the actor's settings. */
export async function resolvePage(app: App, actor: Actor, { page, per_page, cursor }: PageInput): Promise<PageRequest> {
  return { page, cursor, per_page: per_page ?? (await get(app, actor)).items_per_page }
}

function withDefaults({ config: { limits, ocr } }: App, row: Row<'user_settings'> | undefined): Settings {
  return {
    theme: row?.theme ?? 'system',
    language: row?.language ?? 'en',
    notifications_enabled: row?.notifications_enabled ?? true,
    ocr_default_language: row?.ocr_default_language ?? ocr.default_language,
    // The configured maximum may be lower than the stored setting.
    items_per_page: Math.min(row?.items_per_page ?? limits.per_page_default, limits.per_page_max),
  }
}

/** OCR language of a request: `auto`, `eng`, `deu+eng`. checkLanguage() checks that it is installed. */
export const OcrLanguage = z
  .string()
  .regex(/^\w{2,20}(\+\w{2,20}){0,9}$/, '"auto", a language code such as "eng", or several joined by "+"')
  .describe('`auto`, or Tesseract codes joined by `+`. `auto` detects the languages of each page.')

/** Throws VALIDATION_ERROR with the installed languages if one in `language` (codes joined by +) is not installed. */
export async function checkLanguage(app: App, language: string, field = 'language'): Promise<void> {
  const missing = await missingCodes(app, language)
  const installed = [...(app.ocr?.languages.keys() ?? [])].sort()
  if (missing.length > 0) throw invalid(field, `not installed: ${missing.join(', ')}; installed are ${installed.join(', ')}`)
}

/**
 * Returns the OCR language of files that name none: that of their document, else that of the actor's settings. If it is not installed, returns it as
 * `missing`, with `ocr.default_language` in its place, or `auto` if that is not installed either.
 */
export async function defaultLanguage(app: App, actor: Actor, ofDocument?: string): Promise<{ language: string; missing: string | null }> {
  const chosen = ofDocument ?? (await get(app, actor)).ocr_default_language
  const { default_language } = app.config.ocr
  const isInstalled = async (language: string) => (await missingCodes(app, language)).length === 0
  if (await isInstalled(chosen)) return { language: chosen, missing: null }
  const language = (await isInstalled(default_language)) ? default_language : autoLanguage
  app.log.warn({ user_id: actor.id, missing: chosen, language }, 'the OCR language of a document or a user is not installed')
  return { language, missing: chosen }
}

/** Returns the codes in `language` that are not installed. */
async function missingCodes({ ocr }: App, language: string): Promise<string[]> {
  if (!ocr || language === autoLanguage) return []
  await ocr.refresh()
  return language.split('+').filter((code) => !ocr.languages.has(code))
}
