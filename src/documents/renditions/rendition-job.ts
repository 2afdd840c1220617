/** Job that makes the rendition of a version. A crash leaves nothing behind; the row stays pending and the job is run again. */
import { sql } from 'kysely'
import type { App } from '../../app.ts'
import type { Trx } from '../../db/pool.ts'
import { lockLease } from '../../jobs/leases.ts'
import type { Handler, Job, JobFailure } from '../../jobs/queue.ts'
import type { PageText, RenditionInfo, WordRow } from '../../ports/document-reader.ts'
import type { StagedFile } from '../../ports/file-store.ts'
import { readVersion } from '../../version.ts'
import { ensureBytes, lockOrCreate, withAddress } from '../stored-files.ts'
import { publishStates } from './renditions.ts'

/** Pages whose words are read by one query. */
const batchSize = 50
/** Limit of a rendition, in sizes of its original and in bytes. A conversion does not grow like this; a crafted file might. */
const maxGrowth = { factor: 4, bytes: 256 << 20 }
/** Problems that another attempt cannot solve: the file itself is the reason. */
const refusals = new Set(['NOT_CONVERTIBLE', 'FILE_ENCRYPTED', 'FILE_TOO_COMPLEX', 'FILE_CORRUPT'])

type RenditionJob = Job<'rendition'>

interface Original {
  id: string
  owner_id: string
  title: string
  filename: string
  mime_type: string
  sha256: string
  size: number
  language: string
  author: string | null
  created: string | null
  created_at: Date
  file_replaced_at: Date | null
}

export const rendition: Handler<'rendition'> = { run, failed }

async function run(app: App, job: RenditionJob, signal: AbortSignal): Promise<undefined> {
  const original = await findOriginal(app, job)
  if (!original) return undefined
  const { path, release } = await withAddress(app.db, original.sha256, (address) => app.files.openLocal(address))
  try {
    const file = { path, filename: original.filename, mimeType: original.mime_type }
    const maxBytes = original.size * maxGrowth.factor + maxGrowth.bytes
    const stage = (bytes: AsyncIterable<Uint8Array>) => app.files.stage(bytes, maxBytes)
    const staged = await app.reader.pdfa(file, pageTexts(app, job), infoOf(original), stage, { signal })
    await store(app, job, original, staged)
  } finally {
    await release()
  }
  return undefined
}

/** Returns the document of a rendition that is still requested; undefined if the document has gone on to another version. */
async function findOriginal({ db }: App, { document_id, payload }: RenditionJob): Promise<Original | undefined> {
  const { rows } = await sql<Original>`
    select id, owner_id, title, filename, mime_type, document.sha256, document.size, language, metadata ->> 'author' as author,
      metadata ->> 'created' as created, document.created_at, file_replaced_at
    from live_documents document join renditions on document_id = id and number = current_version
    where id = ${document_id} and number = ${payload.number} and kind = ${payload.kind} and state = 'pending'`.execute(db)
  return rows[0]
}

async function* pageTexts({ db }: App, { document_id, payload }: RenditionJob): AsyncGenerator<PageText> {
  for (let last = 0; ; ) {
    const { rows } = await sql<{ page: number; angle: number; words: WordRow[] }>`
      select page, angle, words from page_words where document_id = ${document_id} and number = ${payload.number} and page > ${last}
      order by page limit ${batchSize}`.execute(db)
    yield* rows
    if (rows.length < batchSize) return
    last = rows.at(-1)?.page ?? 0
  }
}

function infoOf({ title, author, created, created_at, file_replaced_at, language, sha256 }: Original): RenditionInfo {
  const modified = file_replaced_at ?? created_at
  const stated = created === null ? Number.NaN : Date.parse(created)
  const isPlausible = stated > 0 && stated <= modified.getTime()
  return {
    title,
    author,
    sha256,
    producer: `dms ${readVersion()}`,
    language: toBcp47(language),
    created: (isPlausible ? new Date(stated) : created_at).toISOString(),
    modified: modified.toISOString(),
  }
}

/** Returns the tag of one Tesseract language, such as `de` for `deu`; null for several, and for codes with a script. */
function toBcp47(language: string): string | null {
  if (!/^[a-z]{3}$/.test(language)) return null
  const [tag = language] = Intl.getCanonicalLocales(language)
  return tag
}

/** Stores the file and records it, if the job still holds its lease. */
async function store(app: App, job: RenditionJob, { id, owner_id }: Original, staged: StagedFile): Promise<void> {
  const { number, kind } = job.payload
  try {
    await app.db.transaction().execute(async (trx) => {
      await lockLease(trx, job, app.config.worker.lease)
      const address = await lockOrCreate(trx, staged)
      await ensureBytes(app, trx, staged, address, { canCompare: false })
      await sql`
        update renditions set state = 'completed', sha256 = ${staged.sha256}, size = ${staged.size}, finished_at = ${app.now()}
        where document_id = ${id} and number = ${number} and kind = ${kind} and state = 'pending'`.execute(trx)
      await publishStates(trx, [{ id, owner_id, number }], kind, 'completed')
    })
    await staged.confirm()
  } finally {
    await staged.discard()
  }
}

async function failed(app: App, trx: Trx, { document_id, payload }: RenditionJob, problem: JobFailure): Promise<void> {
  if (!problem.isFinal) return
  const { number, kind } = payload
  const state = refusals.has(problem.code) ? ('refused' as const) : ('failed' as const)
  const { rows } = await sql<{ owner_id: string }>`
    update renditions set state = ${state}, error_code = ${problem.code}, error_message = ${problem.message}, finished_at = ${app.now()}
    from live_documents document
    where document_id = ${document_id} and number = ${number} and kind = ${kind} and state = 'pending' and document.id = document_id
    returning owner_id`.execute(trx)
  await publishStates(
    trx,
    rows.map(({ owner_id }) => ({ id: document_id ?? '', owner_id, number })),
    kind,
    state,
  )
}
