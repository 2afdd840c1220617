/** Rebuilds of the index beside changes of documents, and their interruption. */
import { setTimeout } from 'node:timers/promises'
import { sql } from 'kysely'
import { expect, test, vi } from 'vitest'
import type { Db } from '../../src/db/pool.ts'
import type { IndexRebuild } from '../../src/ports/search-engine.ts'
import { recoverChanges } from '../../src/search/change-log.ts'
import { queueReindex, reindex, status } from '../../src/search/reindex.ts'
import { startWorker } from '../../src/worker/worker.ts'
import { startApp } from '../support/app.ts'
import { countWaiting } from '../support/lock-waits.ts'
import { insertDocument } from '../support/search-suite.ts'

const waiting = { timeout: 60_000, interval: 100 }

async function start() {
  const started = await startApp({ 'ocr.enabled': false })
  const { app, ada, asAda } = started
  const ids: string[] = []
  for (let nth = 0; nth < 5; nth++) ids.push(await insertDocument(app.db, ada.id, { title: `Old ${nth}`, content: 'word' }))
  await reindex(app)
  /** Replaces functions of the rebuilds that begin from now on. */
  const alter = (change: (next: IndexRebuild) => Partial<IndexRebuild>) => {
    const { rebuild } = app.search
    Object.assign(app.search, {
      rebuild: async () => {
        const next = await rebuild()
        return { ...next, ...change(next) }
      },
    })
  }
  const find = async (q: string) => (await asAda.search.query(q)).total
  const rename = (id: string, title: string) => asAda.call('PUT', `/api/documents/${id}`, { title })
  const left = async () => {
    const { rows } = await sql<{ left: number }>`
      select (select count(*) from search_changes) + (select count(*) from search_rebuild) as left`.execute(app.db)
    return rows[0]!.left
  }
  return { ...started, ids, alter, find, rename, left }
}

test('a worker of one slot indexes changes while it rebuilds the index, which documents leave meanwhile', async () => {
  const { app, ids, alter, find, rename, asAda } = await start()
  let isFirst = true
  alter(({ put }) => ({
    async put(some) {
      await put(some)
      if (!isFirst) return
      isFirst = false
      await rename(ids[0]!, 'Renamed')
      await asAda.documents.delete(ids[1]!)
      await vi.waitFor(async () => expect([await find('renamed'), await find('word')]).toEqual([1, 4]), waiting)
    },
  }))
  const worker = await startWorker(app, { queues: ['index', 'maintenance'], concurrency: 1 })
  const id = await queueReindex(app, { anew: true })
  const isQueued = async () => (await app.db.selectFrom('jobs').select('id').where('id', '=', id).execute()).length > 0
  await vi.waitFor(async () => expect(await isQueued()).toBe(false), waiting)
  await worker.stop(60_000)
  expect([isFirst, await find('renamed'), await find('word')]).toEqual([false, 1, 4])
  expect(await status(app)).toMatchObject({ documents: 4, database: 4, drift: 0 })
})

test('without a worker, a rebuild ends although a document was trashed meanwhile, whose index job removes it', async () => {
  const { app, ids, asAda, runJobs, find } = await start()
  let deletion: Promise<unknown> | undefined
  const done = await reindex(app, {
    onProgress() {
      deletion ??= asAda.documents.delete(ids[0]!)
    },
  })
  expect(done.swapped).toBe(true)
  await deletion
  await runJobs(['index'])
  expect(await find('word')).toBe(4)
  expect(await status(app)).toMatchObject({ documents: 4, database: 4, drift: 0 })
})

test('a change just before the activation of a new index is found, although the rebuild fails right after it', async () => {
  const { app, ids, alter, find, rename, runJobs, left } = await start()
  alter(({ swap }) => ({
    async swap() {
      await rename(ids[0]!, 'Renamed')
      await runJobs(['index'])
      await swap()
      throw new Error('the old index cannot be deleted')
    },
  }))
  await expect(reindex(app)).rejects.toThrow('cannot be deleted')
  expect([await find('renamed'), await find('title:old'), await left()]).toEqual([1, 4, 0])
})

test('a worker indexes what a rebuild has recorded whose process died', async () => {
  const { app, ids, find, left } = await start()
  await app.db.updateTable('documents').set({ title: 'Renamed' }).where('id', '=', ids[0]!).execute()
  await sql`insert into search_rebuild default values`.execute(app.db)
  await sql`insert into search_changes (document_id) values (${ids[0]!})`.execute(app.db)
  await recoverChanges(app)
  expect([await find('renamed'), await left()]).toEqual([1, 0])
})

test('a rebuild that has lost its lock leaves the index of its successor alone', async () => {
  const { app, ids, alter, find } = await start()
  let isFirst = true
  const first: { successor?: Promise<unknown> } = {}
  alter(({ put }) => ({
    async put(some) {
      await put(some)
      if (!isFirst) return
      isFirst = false
      await sql`select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and application_name like 'dms search.reindex %'`.execute(app.db)
      first.successor = reindex(app, { lockTimeout: 10_000 })
      await first.successor
    },
  }))
  await expect(reindex(app)).rejects.toThrow()
  expect(await first.successor).toMatchObject({ swapped: true })
  expect([await find('word'), (await status(app)).drift]).toEqual([ids.length, 0])
})

/** Returns the name of the newest segment's table. */
async function newestSegment(db: Db): Promise<string> {
  const { rows } = await sql<{ name: string }>`select 'search_segment_' || max(number) as name from search_segments`.execute(db)
  return rows[0]!.name
}

test.each([
  ['a batch', 12, 40_000],
  ['a document of many pages', 1, 400_000],
] as const)('an interrupted rebuild ends in the middle of %s', async (_, count, words) => {
  const { app, ada, alter, ids } = await start()
  for (let nth = 0; nth < count; nth++) await insertDocument(app.db, ada.id, { title: `Long ${nth}`, content: `word${nth} `.repeat(words) })
  const stop = new AbortController()
  const reason = new Error('enough')
  let written = Number.POSITIVE_INFINITY
  alter(({ put }) => ({
    put: (some, signal) =>
      put(some, signal).finally(async () => {
        written = (await sql`select from ${sql.table(await newestSegment(app.db))}`.execute(app.db)).rows.length
      }),
  }))
  await app.db.connection().execute(async (connection) => {
    // The lock of a document that is being indexed.
    await sql`select pg_advisory_lock(hashtext('dms search'), hashtext(id::text)) from documents`.execute(connection)
    const rebuilding = reindex(app, { signal: stop.signal }).catch((error: unknown) => error)
    await vi.waitFor(async () => expect(await countWaiting(app.db)).toBeGreaterThan(0), waiting)
    stop.abort(reason)
    await sql`select pg_advisory_unlock_all()`.execute(connection)
    expect(await rebuilding).toBe(reason)
  })
  expect(written).toBeLessThan(ids.length + count)
})

test('an interrupted rebuild does not wait for the index of a segment', async () => {
  const { app, alter } = await start()
  const stop = new AbortController()
  const reason = new Error('enough')
  await app.db.connection().execute(async (connection) => {
    alter(({ complete }) => ({
      async complete(signal) {
        await sql`begin`.execute(connection)
        await sql`lock table ${sql.table(await newestSegment(connection))} in access exclusive mode`.execute(connection)
        return complete(signal)
      },
      discard: async () => {},
    }))
    const rebuilding = reindex(app, { signal: stop.signal }).catch((error: unknown) => error)
    await vi.waitFor(async () => expect(await countWaiting(app.db)).toBeGreaterThan(0), waiting)
    stop.abort(reason)
    const answer = await Promise.race([rebuilding, setTimeout(waiting.timeout, 'waits')])
    await sql`rollback`.execute(connection)
    expect(answer).toBe(reason)
  })
})
