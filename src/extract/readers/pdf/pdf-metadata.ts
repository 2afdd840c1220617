/** Properties of a PDF. */
import { normalizeWhitespace } from '../decode.ts'

const infoKeys = { Title: 'title', Author: 'author', Subject: 'subject', Keywords: 'keywords', Creator: 'creator', Producer: 'producer' }
const dateKeys = { CreationDate: 'created', ModDate: 'modified' }

/** Some programs write ISO dates. A year or month alone must be the whole value: `2024/02/29` is not the year 2024. */
const dateForm =
  /^(?:D:)?(\d{4})(?:-?(\d\d)(?:-?(\d\d)(?:[T ]?(\d\d))?(?::?(\d\d))?(?::?(\d\d))?(?:\.\d+)?(?:Z|([+-]\d\d)[':]?(\d\d)?)?.*)?)?\s*$/s

/** `date`: see Outline. */
export interface PdfMetadata {
  readonly metadata: Record<string, unknown>
  readonly date: string | undefined
}

/** Reads the document information dictionary. */
export function readInfo(get: (key: string) => unknown): PdfMetadata {
  const metadata: Record<string, unknown> = {}
  for (const [key, name] of Object.entries(infoKeys)) {
    const stored = get(key)
    const value = typeof stored === 'string' ? normalizeWhitespace(stored) : ''
    if (value !== '') metadata[name] = value
  }
  for (const [key, name] of Object.entries(dateKeys)) {
    const date = parsePdfDate(get(key))
    if (date) metadata[name] = date
  }
  const [, year, month, day] = dateForm.exec(String(get('CreationDate') ?? '')) ?? []
  // A year or month alone is no day, also not its first.
  return { metadata, date: year && [year, month, day].filter(Boolean).join('-') }
}

/** Converts `D:20240229120000+01'00'` or an ISO date to an ISO date. Returns null for anything else. */
export function parsePdfDate(value: unknown): string | null {
  const parts = typeof value === 'string' && dateForm.exec(value)
  if (!parts) return null
  const [, year, month = '01', day = '01', hour = '00', minute = '00', second = '00', zoneHour, zoneMinute = '00'] = parts
  const time = new Date(`${year}-${month}-${day}T${hour}:${minute}:${second}${zoneHour ? `${zoneHour}:${zoneMinute}` : 'Z'}`)
  return Number.isNaN(time.getTime()) ? null : time.toISOString()
}
