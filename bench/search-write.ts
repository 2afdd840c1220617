/**
 * What does it cost to index documents one batch after the other, as jobs do?
 *
 *   node bench/search-write.ts [--documents 3000] [--words 1400] [--vocabulary 30000] [--batch 100]
 *
 * Texts of words drawn evenly from a vocabulary, the worst case for an inverted index: nearly every word of a document is a new posting.
 * Prints documents per second, processor time, and WAL and index as multiples of the text. The text itself is stored before, and not counted.
 */
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { sql } from 'kysely'
import type { App } from '../src/app.ts'
import { loadConfig } from '../src/config/load.ts'
import { openLog } from '../src/log/log.ts'
import { openApp } from '../src/open-app.ts'
import { cpuOf, database } from './processor.ts'
import { report } from './report/figure.ts'
import { makeWords, seeded } from './search-corpus.ts'

const { values } = parseArgs({
  options: {
    documents: { type: 'string', default: '3000' },
    words: { type: 'string', default: '1400' },
    vocabulary: { type: 'string', default: '30000' },
    batch: { type: 'string', default: '100' },
  },
})
const [documents, length, vocabulary, batch] = [values.documents, values.words, values.vocabulary, values.batch].map(Number) as [
  number,
  number,
  number,
  number,
]

const data_dir = await mkdtemp(join(tmpdir(), 'dms-bench-'))
// Under root the database runs as another user, who must be able to enter the folder.
await chmod(data_dir, 0o711)
const { config } = loadConfig({ env: {}, flags: { data_dir, 'worker.embedded': false, 'storage.min_free': 0 } })
const app = await openApp(config, openLog({ level: 'error', format: 'json' }), { migrate: 'embedded', creates: true })
try {
  const { ids, bytes } = await fill(app)
  const before = await walBytes(app)
  const [ownBefore, databaseBefore] = [process.cpuUsage(), await databaseSeconds()]
  const start = performance.now()
  for (let from = 0; from < ids.length; from += batch) await app.search.refresh(ids.slice(from, from + batch))
  const seconds = (performance.now() - start) / 1000
  const { user, system } = process.cpuUsage(ownBefore)
  const milliseconds = [(user + system) / 1e6, (await databaseSeconds()) - databaseBefore].map((all) =>
    ((all * 1e3) / documents).toFixed(1),
  )
  const wal = (await walBytes(app)) - before
  const index = await indexBytes(app)
  report({ measure: 'documents indexed', unit: 'documents/s', value: documents / seconds, better: 'higher' })
  report({ measure: 'WAL, multiple of the text', unit: '×', value: wal / bytes, better: 'lower' })
  report({ measure: 'index, multiple of the text', unit: '×', value: index / bytes, better: 'lower' })
  for (const [place, each] of [
    ['worker', milliseconds[0]],
    ['PostgreSQL', milliseconds[1]],
  ] as const)
    report({ measure: `CPU of a document, ${place}`, unit: 'ms', value: Number(each), better: 'lower' })
  console.log(
    `${documents} documents, ${(bytes / 1e6).toFixed(0)} MB of text: ${(documents / seconds).toFixed(0)} documents/s, ${milliseconds[0]} ms of processors each here and ${milliseconds[1]} ms in the database; ` +
      `WAL ${(wal / 1e6).toFixed(0)} MB, ${(wal / bytes).toFixed(1)} times the text; index ${(index / 1e6).toFixed(0)} MB, ${(index / bytes).toFixed(2)} times`,
  )
} finally {
  await app.close()
  await rm(data_dir, { recursive: true, force: true })
}

async function fill({ db }: App): Promise<{ ids: string[]; bytes: number }> {
  const random = seeded(5)
  const known = makeWords().slice(0, vocabulary)
  const text = () => Array.from({ length }, () => known[Math.floor(random() * known.length)]).join(' ')
  const sha256 = '0'.repeat(64)
  await db.insertInto('stored_files').values({ sha256, address: sha256, size: 1 }).execute()
  const owner = { username: 'bench', username_key: 'bench', email: 'b@example.org', email_key: 'b@example.org', role: 'user' as const }
  const { id: owner_id } = await db.insertInto('users').values(owner).returning('id').executeTakeFirstOrThrow()
  const ids: string[] = []
  let bytes = 0
  for (let made = 0; made < documents; ) {
    const rows = Array.from({ length: Math.min(100, documents - made) }, (_, nth) => ({
      owner_id,
      title: `Document ${made + nth}`,
      filename: `document-${made + nth}.txt`,
      content: text(),
      mime_type: 'text/plain',
      size: 1,
      sha256,
      status: 'completed' as const,
      language: 'eng',
    }))
    for (const { content } of rows) bytes += content.length
    const inserted = await db.insertInto('documents').values(rows).returning('id').execute()
    ids.push(...inserted.map(({ id }) => id))
    made += rows.length
  }
  return { ids: ids.sort(), bytes }
}

/** Returns the CPU seconds of all connections; some are opened meanwhile. */
async function databaseSeconds(): Promise<number> {
  return cpuOf(await database(data_dir))
}

async function walBytes({ db }: App): Promise<number> {
  const { rows } = await sql<{ bytes: number }>`select (pg_current_wal_insert_lsn() - '0/0')::float8 as bytes`.execute(db)
  return rows[0]?.bytes ?? 0
}

async function indexBytes({ db }: App): Promise<number> {
  const { rows } = await sql<{ bytes: number }>`
    select coalesce(sum(pg_total_relation_size(oid)), 0)::float8 as bytes from pg_class where relkind = 'r' and relname like 'search%'`.execute(
    db,
  )
  return rows[0]?.bytes ?? 0
}
