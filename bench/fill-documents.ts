/** Creates documents without files, for programs that measure the database. */
import { sql } from 'kysely'
import type { App } from '../src/app.ts'
import { labels, makeDocuments, owners, seeded } from './search-corpus.ts'

/** Inserts documents of `meanWords` words (about 7 bytes each) into the tables, with ids and dates in one order as after uploads. */
export async function fillDocuments({ db }: App, count: number, words: readonly string[], meanWords = 382): Promise<void> {
  const start = performance.now()
  const sha256 = '0'.repeat(64)
  await db.insertInto('stored_files').values({ sha256, address: sha256, size: 1 }).execute()
  const person = (username: string, role: 'admin' | 'user') => {
    const email = `${username}@example.org`
    return { username, username_key: username, email, email_key: email, role }
  }
  const numbered = (count: number, prefix: string) => Array.from({ length: count }, (_, nth) => `${prefix}${String(nth).padStart(3, '0')}`)
  const users = await db
    .insertInto('users')
    .values([person('zz-admin', 'admin'), ...numbered(owners, 'user').map((name) => person(name, 'user'))])
    .returning(['id', 'username'])
    .execute()
  const userIds = users.slice(1).map(({ id }) => id)
  const made = await db
    .insertInto('labels')
    .values(numbered(labels, 'label').map((name) => ({ name, name_key: name, color: '#336699' })))
    .returning('id')
    .execute()
  const labelIds = made.map(({ id }) => id)
  const random = seeded(3)
  let batch: { id: string; owner_id: string; title: string; filename: string; content: string; mime_type: string; created_at: string }[] =
    []
  let carried: { document_id: string; label_id: string }[] = []
  const flush = async () => {
    const rows = JSON.stringify(batch)
    const pairs = JSON.stringify(carried)
    batch = []
    carried = []
    await db.transaction().execute(async (trx) => {
      await sql`set local synchronous_commit = off`.execute(trx)
      await sql`
        insert into documents (id, owner_id, title, filename, content, mime_type, created_at, updated_at, size, sha256, language, status)
        select id, owner_id, title, filename, content, mime_type, created_at, created_at, 1000, ${sha256}, 'eng', 'completed'
        from json_to_recordset(${rows}::json) as made (id uuid, owner_id uuid, title text, filename text, content text, mime_type text, created_at timestamptz)`.execute(
        trx,
      )
      await sql`insert into document_labels (document_id, label_id)
        select document_id, label_id from json_to_recordset(${pairs}::json) as made (document_id uuid, label_id uuid)`.execute(trx)
    })
  }
  for (const { owner, labels, createdAt, title, filename, content, mimeType } of makeDocuments(count, words, meanWords)) {
    const id = idAt(createdAt, random)
    batch.push({
      id,
      owner_id: userIds[owner] ?? '',
      title,
      filename,
      content,
      mime_type: mimeType,
      created_at: createdAt.toISOString(),
    })
    for (const label of labels) carried.push({ document_id: id, label_id: labelIds[label] ?? '' })
    if (batch.length === 1000) await flush()
  }
  await flush()
  await sql`vacuum analyze documents, document_labels, users, labels`.execute(db)
  console.log(`${count} documents put into the tables in ${((performance.now() - start) / 1000).toFixed(0)} s`)
}

/** A UUID of version 7. */
function idAt(at: Date, random: () => number): string {
  const time = at.getTime().toString(16).padStart(12, '0')
  const some = () =>
    Math.floor(random() * 0x1_0000_0000)
      .toString(16)
      .padStart(8, '0')
  const [one, two] = [some(), some()]
  return `${time.slice(0, 8)}-${time.slice(8)}-7${one.slice(0, 3)}-8${one.slice(3, 6)}-${two}${one.slice(0, 4)}`
}
