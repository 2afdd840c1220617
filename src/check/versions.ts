/** Checks whether documents and their versions agree. */
import { type RawBuilder, sql } from 'kysely'
import type { App } from '../app.ts'
import { clearArchived } from '../documents/versions/current-version.ts'
import type { CheckResult } from './check-result.ts'

/** Maximum number of rows reported by each query. */
const maxRows = 10_000

interface Row {
  id: string
  /** number of a version */
  number: number
  expected: string | number
  actual: string | number
}

/** Yields documents that disagree with their current version, numbers that would be given twice, and old versions without their text. */
export async function* versions(app: App): AsyncGenerator<CheckResult> {
  const run = async (query: RawBuilder<Row>) => (await query.execute(app.db)).rows
  for (const { id, number } of await run(unrecorded)) {
    const message = `version ${number}, the current one, is not recorded`
    yield { severity: 'error', message, document_id: id, version: number, repair: () => recordCurrent(app, id) }
  }
  for (const { id, number, expected, actual } of await run(different)) {
    const message = `has another file than version ${number}, the current one: dms documents restore ${id} --version ${number}`
    yield { severity: 'error', message, document_id: id, version: number, expected, actual }
  }
  for (const { id, number, actual } of await run(newer)) {
    const message = `version ${number} is newer than ${actual}, the current one: dms documents restore ${id} --version ${number}`
    yield { severity: 'error', message, document_id: id, version: number, expected: number, actual }
  }
  for (const { id, number, expected, actual } of await run(numberedTwice)) {
    const message = `would give the number of version ${number} again`
    yield { severity: 'error', message, document_id: id, version: number, expected, actual, repair: () => raiseLastVersion(app, id) }
  }
  for (const { id, number, expected, actual } of await run(withoutText)) {
    const message = `version ${number} has lost its text: dms documents restore ${id} --version ${number}, then dms documents retry-ocr ${id}`
    yield { severity: 'warning', message, document_id: id, version: number, expected, actual }
  }
  for (const { id, number } of await run(archivedTwice)) {
    const message = `version ${number}, the current one, has the text of an old version`
    yield { severity: 'warning', message, document_id: id, version: number, repair: () => clearText(app, id, number) }
  }
}

const unrecorded = sql<Row>`
  select document.id, document.current_version as number from documents document
  where not exists (select from document_versions where document_id = document.id and number = document.current_version)
  order by document.id limit ${maxRows}`

async function recordCurrent(app: App, id: string): Promise<string> {
  await sql`
    insert into document_versions (document_id, number, sha256, size, mime_type, filename, origin, created_at)
    select id, current_version, sha256, size, mime_type, filename, case when source_id is null then 'upload' else 'sync' end,
      coalesce(file_replaced_at, created_at)
    from documents where id = ${id} on conflict do nothing`.execute(app.db)
  return 'recorded'
}

const current = sql`documents document join document_versions version
  on version.document_id = document.id and version.number = document.current_version`
const every = sql`documents document join document_versions version on version.document_id = document.id`

const different = sql<Row>`
  select document.id, version.number, version.sha256 as expected, document.sha256 as actual from ${current}
  where version.sha256 <> document.sha256 or version.size <> document.size order by document.id limit ${maxRows}`

const newer = sql<Row>`
  select document.id, version.number, document.current_version as actual from ${every}
  where version.number > document.current_version order by document.id, version.number limit ${maxRows}`

const numberedTwice = sql<Row>`
  select document.id, version.number, version.number as expected, document.last_version as actual from ${every}
  where version.number > document.last_version order by document.id, version.number limit ${maxRows}`

async function raiseLastVersion(app: App, id: string): Promise<string> {
  await sql`
    update documents set last_version = greatest(last_version, (select max(number) from document_versions where document_id = ${id}))
    where id = ${id}`.execute(app.db)
  return 'continues after it'
}

/** The text of a version is archived when another one becomes current, with all pages if it was read. */
const withoutText = sql<Row>`
  select document.id, version.number, coalesce(version.page_count, 0) as expected, pages.count as actual from ${every}
  cross join lateral (
    select count(*) from version_pages page where page.document_id = document.id and page.number = version.number) pages
  where version.number <> document.current_version
    and (version.status is null or version.content is null or (version.status = 'completed' and pages.count < version.page_count))
  order by document.id, version.number limit ${maxRows}`

const archivedTwice = sql<Row>`
  select document.id, version.number from ${current}
  where version.status is not null or version.content is not null
    or exists (select from version_pages page where page.document_id = document.id and page.number = version.number)
  order by document.id limit ${maxRows}`

const clearText = (app: App, id: string, number: number): Promise<string> =>
  app.db.transaction().execute(async (trx) => {
    const { rows } = await sql`select from documents where id = ${id} and current_version = ${number} for update`.execute(trx)
    if (rows.length === 0) return 'is an old version by now'
    await clearArchived(trx, id, number)
    return 'removed'
  })
