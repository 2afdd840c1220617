/** Files and texts of several documents in one answer, as a tar archive. */
import { buffer } from 'node:stream/consumers'
import { z } from 'zod'
import { type Actor, isAdmin } from '../actor.ts'
import type { App } from '../app.ts'
import { idText, listOf } from '../http/input.ts'
import { StreamedAnswer } from '../http/json/stream.ts'
import { tarEnd, tarHeader, tarPadding } from '../http/tar-writer.ts'
import { nullIfNotStored } from '../ports/file-store.ts'
import { slicesOf } from '../slices.ts'
import { truncateFilename } from './file-names.ts'
import { openStoredFile } from './stored-files.ts'

const BatchGet = z.object({ ids: listOf(idText, 500, 1), with_text: z.boolean().default(false) })

export const batchGetRoute = ({ config }: App) => ({
  summary: 'Get files and texts of several documents',
  description:
    'Answers with a tar archive. The file of a document is `ID/FILENAME`; with `with_text`, the text of a completed document follows as `ID.txt`. ' +
    'Documents that the caller cannot see, missing files and texts above 256 kB are left out.',
  cost: 5,
  scope: 'read' as const,
  audit: config.audit.downloads,
  body: BatchGet,
  produces: ['application/x-tar'],
  isLarge: true,
})

/** A file name of this length and an id fit into a tar header. */
const maxNameBytes = 63
/** Files below this size are sent in one chunk with their header. */
const smallFileBytes = 1 << 20
const maxTextBytes = 256 << 10
/** Documents read by one query, with their texts. */
const batchSize = 50

/** Returns the tar archive of the documents that the actor can see. */
export const batchGet = (app: App, actor: Actor, { ids, with_text }: z.infer<typeof BatchGet>): StreamedAnswer =>
  new StreamedAnswer(streamTar(app, actor, [...new Set(ids)], with_text), { 'content-type': 'application/x-tar' })

async function* streamTar(app: App, actor: Actor, ids: readonly string[], withText: boolean): AsyncGenerator<Uint8Array> {
  for (const batch of slicesOf(ids, batchSize)) {
    const rows = await loadRows(app, actor, batch, withText)
    const byId = new Map(rows.map((row) => [row.id, row]))
    for (const id of batch) {
      const row = byId.get(id)
      if (row) yield* entriesOf(app, row)
    }
  }
  yield tarEnd
}

type BatchRow = Awaited<ReturnType<typeof loadRows>>[number]

function loadRows(app: App, actor: Actor, ids: readonly string[], withText: boolean) {
  return app.database.texts
    .selectFrom('live_documents')
    .select(['id', 'filename', 'sha256', 'size', 'mime_type', 'created_at', 'file_replaced_at'])
    .select((eb) =>
      eb
        .case()
        .when(eb.and([eb.val(withText), eb('status', '=', 'completed'), eb(eb.fn('octet_length', ['content']), '<=', maxTextBytes)]))
        .then(eb.ref('content'))
        .end()
        .as('text'),
    )
    .where('id', 'in', ids)
    .$if(!isAdmin(actor), (query) => query.where('owner_id', '=', actor.id))
    .execute()
}

/** Yields the entries of one document. A failure while the file is read ends the answer early. */
async function* entriesOf(app: App, row: BatchRow): AsyncGenerator<Uint8Array> {
  const { id, filename, size, created_at, text } = row
  const modified = created_at.getTime() / 1000
  const bytes = await openBytes(app, row)
  if (bytes) {
    const header = tarHeader(`${id}/${truncateFilename(filename, maxNameBytes)}`, size, modified)
    if (size < smallFileBytes) yield Buffer.concat([header, await buffer(bytes), tarPadding(size)])
    else {
      // A client that leaves after the header would leave the file open.
      try {
        yield header
        yield* bytes
        yield tarPadding(size)
      } finally {
        bytes.destroy()
      }
    }
  }
  if (text === null) return
  const content = Buffer.from(text)
  yield Buffer.concat([tarHeader(`${id}.txt`, content.length, modified), content, tarPadding(content.length)])
}

/** Returns null for a missing file. */
const openBytes = (app: App, row: BatchRow) =>
  openStoredFile(app, row)
    .then(({ open }) => open())
    .catch(nullIfNotStored)
