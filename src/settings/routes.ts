import { z } from 'zod'
import type { App } from '../app.ts'
import { type Route, user } from '../http/route.ts'
import * as settings from './settings.ts'

const isTag = (tag: string): boolean => {
  try {
    return Intl.getCanonicalLocales(tag).length === 1
  } catch {
    return false
  }
}

const fields = {
  theme: z.enum(['light', 'dark', 'system']),
  language: z.string().max(100).refine(isTag, 'a BCP 47 tag such as "en" or "de-AT"'),
  notifications_enabled: z.boolean(),
  ocr_default_language: settings.OcrLanguage,
}
export const changes = ({ config }: App) =>
  z.object({ ...fields, items_per_page: z.int().min(1).max(config.limits.per_page_max) }).partial()

export const SettingsAnswer = z.object({ ...fields, language: z.string(), items_per_page: z.int() })

export const routes = (app: App): Route[] => [
  user('GET /api/settings', { summary: 'Get your settings', answer: SettingsAnswer }, ({ actor }) => settings.get(app, actor)),
  user(
    'PUT /api/settings',
    { summary: 'Change your settings', body: changes(app), answer: SettingsAnswer, errors: ['USER_NOT_FOUND'] },
    ({ actor, body }) => settings.update(app, actor, body),
  ),
]
