import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import type { App } from '../../src/app.ts'
import { AppError } from '../../src/errors.ts'
import { enqueue } from '../../src/jobs/queue.ts'
import { SearchFailure } from '../../src/ports/search-engine.ts'
import { reindex, status } from '../../src/search/reindex.ts'
import { type Fault, verify } from '../../src/search/verify.ts'
import { startApp } from '../support/app.ts'
import { assign, insertDocument, label } from '../support/search-suite.ts'

const faultsOf = (app: App): Promise<Fault[]> => Array.fromAsync(verify(app, { sample: 100 }))

test('a missing entry and an extra one are both reported by status, metrics and verify, until a reindex', async () => {
  const { app, ada, asAdmin } = await startApp()
  const ids = [await insertDocument(app.db, ada.id, { title: 'Lighthouse' }), await insertDocument(app.db, ada.id)]
  await app.search.refresh(ids)
  expect(await status(app)).toMatchObject({ documents: 2, database: 2, missing: 0, extra: 0, drift: 0, waiting: 0 })
  expect(await faultsOf(app)).toEqual([])
  const gone = randomUUID()
  await sql`update search_segment_1 set document_id = ${gone} where document_id = ${ids[0]}`.execute(app.db)
  expect(await status(app)).toMatchObject({ documents: 2, database: 2, missing: 1, extra: 1, drift: 2 })
  const metrics = await (await asAdmin.send('GET', '/metrics')).text()
  expect(metrics).toContain('\ndms_search_drift_documents 2\n')
  const found = await faultsOf(app)
  expect(found.map(({ document_id, problem, query }) => [document_id, problem, query]).sort()).toEqual(
    [
      [ids[0], 'missing', null],
      [gone, 'extra', null],
      [ids[0], 'unfound', '"Lighthouse"'],
    ].sort(),
  )
  await app.db.transaction().execute((trx) => enqueue(trx, 'index', { document_id: ids[0]! }))
  expect((await faultsOf(app)).map(({ document_id }) => document_id)).toEqual([gone])
  expect(await reindex(app, { ifNeeded: true })).toMatchObject({ swapped: true })
  expect(await status(app)).toMatchObject({ drift: 0, waiting: 1, failing: 0 })
  expect(await faultsOf(app)).toEqual([])
})

test('verify finds words, labels and passages that only the entry has, and those that it lacks', async () => {
  const { app, ada } = await startApp()
  const long = `${Array.from({ length: 20_000 }, (_, nth) => `w${nth}`).join(' ')} colophon`
  const [short, book, moved] = [
    await insertDocument(app.db, ada.id, { title: 'Harbour dues', content: 'harbour, quay' }),
    await insertDocument(app.db, ada.id, { title: 'Book', content: long }),
    await insertDocument(app.db, ada.id, { title: 'Moved' }),
  ]
  const red = await label(app.db, 'red')
  await assign(app.db, moved, red)
  await app.search.refresh([short, book, moved])
  expect(await faultsOf(app)).toEqual([])
  await app.db.updateTable('documents').set({ title: 'Harbour' }).where('id', '=', short).execute()
  await app.db
    .updateTable('documents')
    .set({ content: long.replace('colophon', 'epilogue') })
    .where('id', '=', book)
    .execute()
  await app.db.deleteFrom('document_labels').where('document_id', '=', moved).execute()
  const stale = (await faultsOf(app)).filter(({ problem }) => problem === 'stale')
  const wrong = Object.fromEntries(stale.map(({ document_id, left, lacks }) => [document_id, { left, lacks }]))
  expect(wrong).toEqual({
    [short]: { left: ['dues'], lacks: [] },
    [book]: { left: ['colophon'], lacks: ['epilogue'] },
    [moved]: { left: expect.arrayContaining([`label:${red}`, 'red']), lacks: [] },
  })
  await app.search.refresh([short, book, moved])
  expect(await faultsOf(app)).toEqual([])
  // One that is to be read anew is told to the index when it has been.
  await app.db.updateTable('documents').set({ status: 'pending' }).where('id', '=', short).execute()
  expect(await faultsOf(app)).toEqual([])
})

test('while the engine is unreachable waiting jobs are postponed together, and run at once afterwards; refused ones delay no other', async () => {
  const { app, ada, runJobs } = await startApp()
  const ids = []
  for (let count = 0; count < 4; count++) ids.push(await insertDocument(app.db, ada.id))
  const [poison] = ids
  const put = (some: readonly string[]) =>
    app.db.transaction().execute(async (trx) => {
      for (const id of some) await enqueue(trx, 'index', { document_id: id })
    })
  const jobs = () =>
    app.db
      .selectFrom('jobs')
      .select(['attempts', 'error_code', sql<boolean>`run_at > now()`.as('is_later')])
      .where('kind', '=', 'index')
      .execute()
  const refresh = app.search.refresh
  let asked = 0
  Object.assign(app.search, {
    async refresh() {
      asked++
      throw new AppError('SERVICE_UNAVAILABLE')
    },
  })
  await put(ids)
  await runJobs(['index'])
  expect(asked).toBe(1)
  expect(await jobs()).toEqual(ids.map(() => ({ attempts: 1, error_code: 'SERVICE_UNAVAILABLE', is_later: true })))
  expect(await status(app)).toMatchObject({ missing: 4, waiting: 4, failing: 4 })
  for (let outage = 0; outage < 4; outage++) {
    await app.db
      .updateTable('jobs')
      .set({ run_at: new Date(0) })
      .execute()
    await runJobs(['index'])
  }
  expect(asked).toBe(5)
  expect(new Set((await jobs()).map(({ attempts }) => attempts)), 'so that none waits for long, nor is given up').toEqual(new Set([3]))

  Object.assign(app.search, {
    async refresh(some: readonly string[]) {
      if (some.includes(poison!)) throw new SearchFailure('of these words')
      await refresh(some)
    },
  })
  const fresh = await insertDocument(app.db, ada.id)
  await put([fresh])
  await runJobs(['index'])
  expect(await jobs()).toEqual([{ attempts: 4, error_code: 'SEARCH_FAILED', is_later: true }])
  expect(await status(app)).toMatchObject({ missing: 1, waiting: 1, failing: 1 })
  await put([fresh])
  await runJobs(['index'])
  expect(await jobs(), 'what was refused is not asked for again with every other').toEqual([
    { attempts: 4, error_code: 'SEARCH_FAILED', is_later: true },
  ])
})
