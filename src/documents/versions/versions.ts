/** Versions of documents: every file that a document has had. The document shows the current one, which is the newest. */
import { sql } from 'kysely'
import type { Actor } from '../../actor.ts'
import type { App } from '../../app.ts'
import { appendWith } from '../../audit/audit.ts'
import { clockMs } from '../../db/clock.ts'
import type { Db, Trx } from '../../db/pool.ts'
import type { Row } from '../../db/schema.ts'
import { AppError } from '../../errors.ts'
import { publish, publishMany } from '../../events.ts'
import { detectType } from '../../extract/detect.ts'
import type { StagedFile } from '../../ports/file-store.ts'
import { defaultLanguage } from '../../settings/settings.ts'
import { requireDocument, requireMatch } from '../access.ts'
import { sanitizeFilename } from '../file-names.ts'
import { deleteVersions } from '../purge.ts'
import { assertDestroyable } from '../retention.ts'
import { enqueueIndex, publishUpdates } from '../revisions.ts'
import { ensureBytes, isOwned, lockOrCreate } from '../stored-files.ts'
import { destructionEntry } from '../trash/destroy.ts'
import type { Document } from '../view.ts'
import { archiveCurrent, clearArchived, makeCurrent } from './current-version.ts'

type Origin = Row<'document_versions'>['origin']

export interface Version extends Pick<Row<'document_versions'>, 'number' | 'size' | 'sha256' | 'mime_type' | 'filename' | 'origin'> {
  created_at: Date
  created_by: string | null
  current: boolean
}

export interface NewVersion {
  staged: StagedFile
  filename: string
  origin: Origin
  /** id of a user; null: the operator, or a sync */
  createdBy: string | null
  ocr: boolean
  language: string
}

/** New file of a document. */
export interface Replacement extends Pick<NewVersion, 'staged' | 'filename' | 'ocr'> {
  /** default: that of the document if it is installed */
  language: string | undefined
  /** If-Match header of the request */
  ifMatch: string | null
}

/** A version. `created` is false if the document had these bytes already. */
export interface StoredVersion {
  version: Version
  created: boolean
}

/** Lists the versions of a document, newest first. Accepts a document in the trash. Throws DOCUMENT_NOT_FOUND. */
export async function list(app: App, actor: Actor, id: string): Promise<Version[]> {
  await requireDocument(app.reads, actor, id, { inTrash: true })
  return select(app.reads, id).orderBy('version.number', 'desc').execute()
}

/** Returns a version, also of a document in the trash. Throws DOCUMENT_NOT_FOUND, VERSION_NOT_FOUND. */
export async function get(app: App, actor: Actor, id: string, number: number): Promise<Version> {
  await requireDocument(app.reads, actor, id, { inTrash: true })
  return find(app.reads, id, number)
}

/** Stores a file as the next version of a document. Call `staged.confirm()` after the commit. Throws DOCUMENT_NOT_FOUND, PRECONDITION_FAILED. */
export async function replace(
  app: App,
  trx: Trx,
  actor: Actor,
  id: string,
  { ifMatch, language: asked, ...file }: Replacement,
): Promise<StoredVersion> {
  await lockDocument(trx, id)
  const document = await requireDocument(trx, actor, id)
  requireMatch(document, ifMatch)
  const language = asked ?? (await defaultLanguage(app, actor, document.language)).language
  return addVersion(app, trx, document, { ...file, language, origin: 'upload', createdBy: actor.id })
}

/** Stores a file as the next version of a locked document. Call `staged.confirm()` after the commit. */
export async function addVersion(
  app: App,
  trx: Trx,
  { id, owner_id, sha256: currentSha256 }: Pick<Document, 'id' | 'owner_id' | 'sha256'>,
  { staged, filename: name, origin, createdBy, ocr, language }: NewVersion,
): Promise<StoredVersion> {
  const { sha256, size } = staged
  const address = await lockOrCreate(trx, staged)
  const isCurrent = sha256 === currentSha256
  await ensureBytes(app, trx, staged, address, { canCompare: isCurrent || (await isOwned(trx, owner_id, sha256)) })
  if (isCurrent) return { version: await findCurrent(trx, id), created: false }
  await archiveCurrent(trx, [id])
  const { last_version } = await trx.selectFrom('documents').select('last_version').where('id', '=', id).executeTakeFirstOrThrow()
  const number = last_version + 1
  const filename = sanitizeFilename(name)
  const file = { sha256, size, filename, mime_type: await detectType(staged.head, filename, size) }
  await trx
    .insertInto('document_versions')
    .values({ document_id: id, number, ...file, origin, created_at: clockMs, created_by: createdBy, ocr_enabled: ocr, language })
    .execute()
  await makeCurrent(app, trx, [{ id, number, textOf: number }])
  await clearArchived(trx, id, number)
  await publishVersions(trx, [{ id, owner_id, number }], origin)
  return { version: await find(trx, id, number), created: true }
}

/**
 * Makes the file, text and pages of a version current again, as a new version. `ifMatch` is the If-Match header. Throws DOCUMENT_NOT_FOUND,
 * VERSION_NOT_FOUND, PRECONDITION_FAILED.
 */
export async function restore(
  app: App,
  actor: Actor,
  id: string,
  number: number,
  ifMatch: string | null,
): Promise<StoredVersion & { document: Document }> {
  return app.db.transaction().execute(async (trx) => {
    await lockDocument(trx, id)
    const current = await requireDocument(trx, actor, id)
    const { sha256 } = await find(trx, id, number)
    requireMatch(current, ifMatch)
    const created = sha256 !== current.sha256
    if (created) await restoreVersions(app, trx, actor, [{ id, number }])
    return { version: await findCurrent(trx, id), created, document: await requireDocument(trx, actor, id) }
  })
}

/** Restores one version of each document, with its text if it was read. The documents must be locked and not in the trash. */
export async function restoreVersions(
  app: App,
  trx: Trx,
  actor: Actor,
  restorations: readonly { id: string; number: number }[],
): Promise<void> {
  if (restorations.length === 0) return
  await archiveCurrent(
    trx,
    restorations.map(({ id }) => id),
  )
  const { rows } = await sql<{ id: string; owner_id: string; number: number; textOf: number }>`
    with restored as (
      select document.id, owner_id, last_version + 1 as number, version.number as "textOf"
      from jsonb_to_recordset(${JSON.stringify(restorations)}::jsonb) as restoration (id uuid, number integer)
      join documents document on document.id = restoration.id
      join document_versions version on version.document_id = restoration.id and version.number = restoration.number
    ), created as (
      insert into document_versions (document_id, number, sha256, size, mime_type, filename, origin, created_at, created_by)
      select id, restored.number, sha256, size, mime_type, filename, 'restore', ${clockMs}, ${actor.id}::uuid
      from restored join document_versions version on document_id = id and version.number = "textOf"
    )
    select * from restored order by id`.execute(trx)
  await makeCurrent(app, trx, rows)
  await publishVersions(trx, rows, 'restore')
}

/**
 * Deletes a version. If it is the current version, the newest other one becomes current. `ifMatch` is the If-Match header. Throws
 * DOCUMENT_NOT_FOUND, VERSION_NOT_FOUND, PRECONDITION_FAILED, RETENTION, or CONFLICT for the only version.
 */
export async function remove(app: App, actor: Actor, id: string, number: number, ifMatch: string | null): Promise<void> {
  await app.db.transaction().execute(async (trx) => {
    await lockDocument(trx, id)
    const document = await requireDocument(trx, actor, id)
    const version = await find(trx, id, number)
    requireMatch(document, ifMatch)
    await assertDestroyable(app, trx, id)
    const [newest] = await select(trx, id).where('version.number', '!=', number).orderBy('version.number', 'desc').limit(1).execute()
    if (!newest) throw new AppError('CONFLICT', { number }, 'The only version of a document cannot be deleted. Delete the document.')
    const isCurrent = number === document.current_version
    if (isCurrent) {
      await archiveCurrent(trx, [id])
      await makeCurrent(app, trx, [{ id, number: newest.number, textOf: newest.number }])
      await clearArchived(trx, id, newest.number)
      await enqueueIndex(trx, [id])
    }
    await deleteVersions(trx, [{ document_id: id, ...version }])
    await publish(trx, 'document_updated', document.owner_id, {
      document_id: id,
      changes: isCurrent ? ['versions', 'file', 'content', 'status'] : ['versions'],
    })
    await appendWith(trx, [destructionEntry(app, actor, document, [version], 'version_deleted')])
  })
}

/** Locks a document against other changes of its versions. New documents may refer to it meanwhile. */
const lockDocument = (trx: Trx, id: string) => trx.selectFrom('documents').select('id').where('id', '=', id).forNoKeyUpdate().execute()

async function publishVersions(
  trx: Trx,
  documents: readonly { id: string; owner_id: string; number: number }[],
  origin: Origin,
): Promise<void> {
  const added = documents.map(({ id, owner_id, number }) => ({ userId: owner_id, data: { document_id: id, number, origin } }))
  await publishMany(trx, 'version_added', added)
  await publishUpdates(trx, documents, ['file', 'content', 'status'])
}

const find = (db: Db, id: string, number: number): Promise<Version> =>
  select(db, id)
    .where('version.number', '=', number)
    .executeTakeFirstOrThrow(() => new AppError('VERSION_NOT_FOUND'))

const findCurrent = (db: Db, id: string): Promise<Version> =>
  select(db, id).whereRef('version.number', '=', 'document.current_version').executeTakeFirstOrThrow()

/** Selects versions. Takes type and name of the current version from `documents`, because a reader or a rename may have changed them. */
const select = (db: Db, id: string) =>
  db
    .selectFrom('document_versions as version')
    .innerJoin('documents as document', 'document.id', 'version.document_id')
    .where('version.document_id', '=', id)
    .select(['version.number', 'version.size', 'version.sha256', 'version.origin', 'version.created_at', 'version.created_by'])
    .select([
      sql<boolean>`version.number = document.current_version`.as('current'),
      sql<string>`case when version.number = document.current_version then document.mime_type else version.mime_type end`.as('mime_type'),
      sql<string>`case when version.number = document.current_version then document.filename else version.filename end`.as('filename'),
    ])
