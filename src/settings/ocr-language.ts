/** The languages that documents can be read in here. */
import type { App } from '../app.ts'
import { invalid } from '../errors.ts'

/** Throws VALIDATION_ERROR naming the languages that are there, when one of `language` (codes joined by +) is not. */
export function checkLanguage(app: App, language: string, field = 'language'): void {
  if (!app.ocr) return
  const installed = [...app.ocr.languages.keys()].filter((code) => code !== 'osd').sort()
  const missing = language.split('+').filter((code) => !installed.includes(code))
  if (missing.length > 0) throw invalid(field, `not installed: ${missing.join(', ')}; installed are ${installed.join(', ')}`)
}
