/**
 * How good is what a search finds first?
 *
 *   node bench/relevance.ts [--engine postgres]
 *
 * Judged queries over a small set of documents (relevance/set.ts): nDCG@10 of each, and of all.
 */
import { randomBytes } from 'node:crypto'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import type { App } from '../src/app.ts'
import { loadConfig } from '../src/config/load.ts'
import { openLog } from '../src/log/log.ts'
import { openApp } from '../src/open-app.ts'
import { search } from '../src/search/search.ts'
import { ndcg } from './relevance/ndcg.ts'
import { documents, queries } from './relevance/set.ts'

const { values } = parseArgs({ options: { engine: { type: 'string', default: 'postgres' } } })
const data_dir = await mkdtemp(join(tmpdir(), 'dms-relevance-'))
// Under root the database runs as another user, who must be able to enter the folder.
await chmod(data_dir, 0o711)
const { config } = loadConfig({ env: {}, flags: { data_dir, 'search.engine': values.engine, 'storage.min_free': 0 } })
const app = await openApp(config, openLog({ level: 'error', format: 'json' }), { migrate: 'embedded', creates: true })
try {
  const names = await fill(app)
  const table = new Table({ head: ['query', 'nDCG@10', 'found'] })
  let sum = 0
  for (const { q, fuzzy = false, expected } of queries) {
    const query = { q, fuzzy, filters: {}, highlight: false, page: 1, per_page: 10 }
    const { results } = await search(app, { id: null, role: 'admin', username: 'bench' } as Parameters<typeof search>[1], query)
    const found = results.map(({ document_id }) => names.get(document_id) ?? '')
    const score = ndcg(found, expected)
    sum += score
    table.push([q, score.toFixed(2), found.join(' ')])
  }
  console.log(table.toString())
  console.log(`nDCG@10 of ${queries.length} queries: ${(sum / queries.length).toFixed(3)}`)
} finally {
  await app.close()
  await rm(data_dir, { recursive: true, force: true })
}

/** Stores and indexes the set. Returns the names by id. */
async function fill({ db, search }: App): Promise<Map<string, string>> {
  const owner = {
    username: 'bench',
    username_key: 'bench',
    email: 'bench@example.org',
    email_key: 'bench@example.org',
    role: 'user' as const,
  }
  const { id: owner_id } = await db.insertInto('users').values(owner).returning('id').executeTakeFirstOrThrow()
  const names = new Map<string, string>()
  for (const { name, language, title, content } of documents) {
    const sha256 = randomBytes(32).toString('hex')
    await db.insertInto('stored_files').values({ sha256, address: sha256, size: 1 }).execute()
    const { id } = await db
      .insertInto('documents')
      .values({
        owner_id,
        title,
        content,
        language,
        filename: `${name}.pdf`,
        mime_type: 'application/pdf',
        size: 1,
        sha256,
        status: 'completed',
      })
      .returning('id')
      .executeTakeFirstOrThrow()
    names.set(id, name)
  }
  await search.refresh([...names.keys()])
  return names
}
