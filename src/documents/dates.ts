/** Dates of documents: from the user, else from the file, else from the text. */
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { isCalendarDate } from '../calendar.ts'
import type { Trx } from '../db/pool.ts'
import type { Row } from '../db/schema.ts'
import { findDate, searchedLength } from '../extract/dates/find-date.ts'
import { enqueueIndex } from './revisions.ts'

/** Columns of a date that a user chose. Nothing replaces it. */
export const ofUser = { date_source: 'user', date_confidence: null } as const

type DateSource = Row<'documents'>['date_source']

const dayMs = 86_400_000
/** Programs write these times into files that have none: clocks that were never set, and templates of office libraries. */
const emptyTimes =
  /^(?:1[0-7]|1601-01-01|1899-12-3|1900-01-0|1904-01-01|1970-01-01|1980-01-01|2006-09-16T00:00:00|2013-01-27T09:14:16|2013-12-2[34]T\d\d:15:00)/

/** Returns the calendar date at the beginning of a time in a file; null if it is missing or implausible. */
export function fileDate(time: unknown, now: Date): string | null {
  if (typeof time !== 'string' || emptyTimes.test(time)) return null
  const date = time.slice(0, 10)
  // East of this machine the next day may have begun.
  return isCalendarDate(date) && date <= localDay(new Date(now.getTime() + dayMs)) ? date : null
}

/** Returns the day of a time in the time zone of this machine. */
const localDay = (at: Date): string =>
  `${at.getFullYear()}-${String(at.getMonth() + 1).padStart(2, '0')}-${String(at.getDate()).padStart(2, '0')}`

/** Returns columns that set the date of a document. They keep a date that the user chose. */
export function unlessOfUser(date: string | null, source: DateSource) {
  const keep = (column: string, value: unknown, type: string) =>
    sql`case when date_source = 'user' then ${sql.ref(column)} else ${value}::${sql.raw(type)} end` as never
  return {
    document_date: keep('document_date', date, 'date'),
    date_source: keep('date_source', date && source, 'text'),
    date_confidence: keep('date_confidence', null, 'real'),
  }
}

/** Returns columns with the date found in the text, unless the user or the file gave one. Locks the document. */
export async function dateOfText(app: App, trx: Trx, id: string, content: string, detectedLanguages: readonly string[]) {
  const document = await trx
    .selectFrom('live_documents')
    .select(['language', 'date_source'])
    .where('id', '=', id)
    .forNoKeyUpdate()
    .executeTakeFirst()
  const isDated = !document || document.date_source === 'user' || document.date_source === 'metadata'
  return { date_checked: true, ...(isDated ? {} : textColumns(content, textLanguage(document.language, detectedLanguages), app.now())) }
}

/** Returns the languages of a text, joined by `+`: the detected languages, else the requested ones; '' if unknown. */
export const textLanguage = (asked: string, detected: readonly string[]): string => detected.join('+') || (asked === 'auto' ? '' : asked)

/** Returns the date columns of a text. */
export function textColumns(content: string, language: string, now: Date) {
  const found = findDate(content, language, localDay(now))
  return {
    document_date: found?.date ?? null,
    date_source: found ? ('text' as const) : null,
    date_confidence: found?.confidence ?? null,
  }
}

const batchSize = 200
/** Time after which the rest waits for the next run. */
const maxRunMs = 20_000

/** Dates documents that were extracted by versions without dates, from their stored metadata and text. */
export async function dateOldDocuments(app: App): Promise<void> {
  const start = performance.now()
  while (performance.now() - start < maxRunMs && (await app.db.transaction().execute((trx) => dateBatch(app, trx))) === batchSize);
}

async function dateBatch(app: App, trx: Trx): Promise<number> {
  const { rows } = await sql<{ id: string; language: string; created: string | null; head: string; date_source: DateSource | null }>`
    select id, language, metadata ->> 'created' as created, left(content, ${searchedLength}) as head, date_source from live_documents
    where not date_checked and status in ('completed', 'failed') order by id limit ${batchSize} for no key update skip locked`.execute(trx)
  const found = rows.map(({ id, language, created, head, date_source }) => {
    const date = fileDate(created, app.now())
    if (date_source !== null) return { id, document_date: null, date_source, date_confidence: null }
    if (date !== null) return { id, document_date: date, date_source: 'metadata', date_confidence: null }
    return { id, ...textColumns(head, language, app.now()) }
  })
  await sql`
    update documents set date_checked = true, document_date = coalesce(found.document_date, documents.document_date),
      date_source = coalesce(documents.date_source, found.date_source), date_confidence = found.date_confidence,
      revision = revision + (found.document_date is not null)::integer
    from jsonb_to_recordset(${JSON.stringify(found)}::jsonb) found (id uuid, document_date date, date_source text, date_confidence real)
    where documents.id = found.id`.execute(trx)
  const dated = found.filter(({ document_date }) => document_date !== null).map(({ id }) => id)
  await enqueueIndex(trx, dated)
  if (rows.length > 0) app.log.info({ checked: rows.length, dated: dated.length }, 'documents of an earlier version dated')
  return rows.length
}
