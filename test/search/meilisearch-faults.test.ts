import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { describe, expect, onTestFinished, test } from 'vitest'
import { remoteClient } from '../../src/client/remote.ts'
import type { AppError } from '../../src/errors.ts'
import { enqueue } from '../../src/jobs/queue.ts'
import { noFilter, SearchFailure, type SearchQuery } from '../../src/ports/search-engine.ts'
import { openPostgres } from '../../src/search/engines/postgres/engine.ts'
import { reindex, status } from '../../src/search/reindex.ts'
import { verify } from '../../src/search/verify.ts'
import { startApp, upload } from '../support/app.ts'
import { startKillable } from '../support/processes/killable.ts'
import { bareEnvironment, executable } from '../support/processes/run.ts'
import { insertDocument } from '../support/search-suite.ts'
import { type MeilisearchServer, meilisearchServer, program } from '../support/servers/meilisearch-server.ts'
import { tokenFor } from '../support/servers/server.ts'

const timeout = 120_000
/** Timeouts of a request to Meilisearch, and of an answer of dms with two of them. */
const [searchTimeout, soon] = ['1s', 5_000] as const

const plainly: Omit<SearchQuery, 'text'> = {
  fuzzy: false,
  highlight: false,
  filter: noFilter,
  offset: 0,
  limit: 1000,
  maxResults: 1000,
}

describe.skipIf(program === '')(`Meilisearch under faults${program === '' ? ' (skipped: MEILI_BIN names no program)' : ''}`, () => {
  async function start() {
    const meilisearch = await meilisearchServer()
    onTestFinished(() => meilisearch.remove())
    await meilisearch.start()
    const settings = { 'search.engine': 'meilisearch', 'search.url': meilisearch.url, 'search.api_key': meilisearch.key }
    return { meilisearch, ...(await startApp({ ...settings, 'search.timeout': searchTimeout })) }
  }

  /** Starts a `dms serve` on the same database, which can be killed and restarted. */
  async function startServing(key?: string) {
    const dms = await start()
    const { app, ada, dataDir, databaseUrl, meilisearch } = dms
    const token = await tokenFor(app, ada)
    const environmentFor = (key: string) => ({
      DATABASE_URL: databaseUrl,
      DMS_SEARCH_ENGINE: 'meilisearch',
      DMS_MEILI_URL: meilisearch.url,
      DMS_MEILI_API_KEY: key,
      DMS_MEILI_TIMEOUT: searchTimeout,
      DMS_OCR_ENABLED: 'false',
    })
    const serve = async (key = meilisearch.key) => {
      const process = await startKillable(dataDir, environmentFor(key))
      const client = remoteClient({ base: process.url, token: async () => token })
      onTestFinished(async () => {
        await client.close()
        await process.kill()
      })
      return { ...process, client }
    }
    return {
      ...dms,
      ...(await serve(key)),
      serve,
      environment: bareEnvironment({ ...environmentFor(meilisearch.key), DMS_DATA_DIR: dataDir }),
      /** Waits until no index job is left. */
      async settled() {
        while ((await status(app).catch(() => ({ waiting: 1 }))).waiting > 0) await sleep(100)
      },
      total: async (q: string) => (await app.search.search({ ...plainly, text: q })).total,
    }
  }

  const refusal = (answer: Promise<unknown>) =>
    answer.then(
      () => null,
      (error: AppError) => [error.status, error.code],
    )
  const entries = async (meilisearch: MeilisearchServer) =>
    (await meilisearch.ask<{ numberOfDocuments: number }>('GET', '/indexes/documents/stats')).numberOfDocuments
  const timed = async (what: () => Promise<unknown>) => {
    const from = performance.now()
    await what()
    return performance.now() - from
  }

  test('killed repeatedly during uploads and deletions: afterwards everything is found once, and nothing deleted', {
    timeout,
  }, async () => {
    const { app, meilisearch, client, settled, total } = await startServing()
    const kept: string[] = []
    for (let round = 0; round < 3; round++) {
      for (let nth = 0; nth < 12; nth++) {
        const { id } = await upload(client, `${round}-${nth}.txt`, `kilo w${round}x${nth}`)
        if (nth % 4 === 3) await client.documents.delete(id)
        else kept.push(id)
        if (nth === 6) await meilisearch.kill()
      }
      await meilisearch.start()
    }
    await settled()
    const { hits } = await app.search.search({ ...plainly, text: 'kilo' })
    expect(hits.map(({ document_id }) => document_id).sort()).toEqual(kept.toSorted())
    expect([await total('kilo'), await entries(meilisearch)]).toEqual([kept.length, kept.length])
    expect(await Array.fromAsync(verify(app, { sample: 100 }))).toEqual([])
  })

  test('frozen: uploads, lists and reads go on, searches are 503 SERVICE_UNAVAILABLE in time, and everything is found afterwards', {
    timeout,
  }, async () => {
    const { meilisearch, client, settled, total } = await startServing()
    await upload(client, 'before.txt', 'bravo')
    await settled()
    meilisearch.freeze()
    const ids: string[] = []
    for (let nth = 0; nth < 10; nth++)
      expect(await timed(async () => ids.push((await upload(client, `${nth}.txt`, `bravo w${nth}`)).id)), 'an upload').toBeLessThan(soon)
    expect(await timed(() => client.documents.get(ids[0]!))).toBeLessThan(soon)
    expect((await client.documents.page({})).pagination.total).toBe(11)
    expect(await timed(async () => expect(await refusal(client.search.query('bravo'))).toEqual([503, 'SERVICE_UNAVAILABLE']))).toBeLessThan(
      soon,
    )
    await client.documents.delete(ids.pop()!)
    meilisearch.thaw()
    await settled()
    expect([await total('bravo'), await entries(meilisearch)]).toEqual([10, 10])
  })

  test('the next change creates an index again that was removed outside of dms', async () => {
    const { app, asAda, meilisearch, runJobs } = await start()
    for (const name of ['a.txt', 'b.txt']) await upload(asAda, name, `charlie ${name}`)
    await runJobs()
    await remove(meilisearch)
    expect(await refusal(asAda.search.query('charlie'))).toEqual([503, 'SERVICE_UNAVAILABLE'])
    expect(await status(app)).toMatchObject({ missing: 2, drift: 2 })
    await upload(asAda, 'c.txt', 'charlie c')
    await runJobs()
    expect((await asAda.search.query('charlie')).total).toBe(3)
    expect(await status(app)).toMatchObject({ documents: 3, drift: 0 })
  })

  const remove = async (meilisearch: MeilisearchServer) => {
    const { taskUid } = await meilisearch.ask<{ taskUid: number }>('DELETE', '/indexes/documents')
    while ((await meilisearch.ask<{ status: string }>('GET', `/tasks/${taskUid}`)).status !== 'succeeded') await sleep(20)
  }

  test('with more than 1,000 documents only a reindex creates it: searches, status and readiness say so', { timeout }, async () => {
    const { app, ada, asAda, meilisearch } = await start()
    const first = await insertDocument(app.db, ada.id, { content: 'delta' })
    await sql`
      insert into documents (owner_id, title, filename, content, mime_type, status, size, sha256, language, metadata)
      select owner_id, title, filename, content, mime_type, status, size, sha256, language, metadata
      from documents cross join generate_series(1, 1000) where id = ${first}`.execute(app.db)
    await reindex(app)
    await remove(meilisearch)
    const error = (await asAda.search.query('delta').catch((error: unknown) => error)) as AppError
    expect([error.status, error.message]).toEqual([503, 'The search index does not exist. Fix: dms search reindex'])
    await expect(app.search.check()).rejects.toThrow('dms search reindex')
    await expect(app.search.refresh([first])).rejects.toThrow('dms search reindex')
    expect(await status(app)).toMatchObject({ documents: 0, missing: 1001 })
    expect(await reindex(app, { ifNeeded: true })).toMatchObject({ documents: 1001, swapped: true })
    expect((await asAda.search.query('delta')).total).toBe(1000)
  })

  test('a wrong key: searches are 503, uploads go on, and are found with the right key', { timeout }, async () => {
    const { client, stop, serve, settled, total } = await startServing('a key that nobody has')
    await upload(client, 'a.txt', 'echo')
    expect(await refusal(client.search.query('echo'))).toEqual([503, 'SERVICE_UNAVAILABLE'])
    await stop()
    await serve()
    await settled()
    expect(await total('echo')).toBe(1)
  })

  test('a task that fails on a full disk counts as failed, and is repeated with free space', { timeout }, async () => {
    const { app, asAda, ada, meilisearch, runJobs } = await start()
    await upload(asAda, 'a.txt', 'foxtrot')
    await runJobs()
    await meilisearch.kill()
    // Files of so many bytes and no more.
    await meilisearch.start(['env', '--ignore-signal=XFSZ', 'prlimit', '--fsize=600000'])
    const words = (nth: number) => Array.from({ length: 20_000 }, (_, word) => `w${nth}x${word}`).join(' ')
    const failed: { id: string; error: unknown }[] = []
    for (let nth = 0; nth < 8; nth++) {
      const id = await insertDocument(app.db, ada.id, { content: `foxtrot ${words(nth)}` })
      await app.search.refresh([id]).catch((error: unknown) => failed.push({ id, error }))
    }
    expect(failed[0]?.error).toBeInstanceOf(SearchFailure)
    expect(await status(app)).toMatchObject({ missing: failed.length, drift: failed.length })
    await app.db.transaction().execute(async (trx) => {
      for (const { id } of failed) await enqueue(trx, 'index', { document_id: id })
    })
    await runJobs(['index'])
    expect((await status(app)).failing).toBe(failed.length)
    await meilisearch.kill()
    await meilisearch.start()
    await app.db
      .updateTable('jobs')
      .set({ run_at: new Date(0) })
      .execute()
    await runJobs(['index'])
    expect((await asAda.search.query('foxtrot')).total).toBe(9)
    expect(await status(app)).toMatchObject({ documents: 9, drift: 0, waiting: 0 })
  })

  test('dms killed between batches and during a reindex: the next run completes it, without duplicates', {
    timeout,
  }, async () => {
    const { app, meilisearch, client, kill, serve, environment, settled, total } = await startServing()
    let served = { client, kill }
    const kept: string[] = []
    for (let round = 0; round < 3; round++) {
      for (let nth = 0; nth < 10; nth++) kept.push((await upload(served.client, `${round}-${nth}.txt`, `golf w${round}x${nth}`)).id)
      await served.client.documents.delete(kept.pop()!)
      await sleep(round * 50)
      await served.kill()
      served = await serve()
    }
    await settled()
    expect([await total('golf'), await entries(meilisearch)]).toEqual([kept.length, kept.length])
    const indexes = async () => {
      const { results } = await meilisearch.ask<{ results: { uid: string }[] }>('GET', '/indexes')
      return results.map(({ uid }) => uid).sort()
    }
    const half = spawn(process.execPath, [executable, 'search', 'reindex', '--batch-size', '1'], { env: environment, stdio: 'ignore' })
    const ended = once(half, 'exit')
    while (!(await indexes()).includes('documents_next')) await sleep(10)
    half.kill('SIGKILL')
    await ended
    expect([await total('golf'), await indexes()]).toEqual([kept.length, ['documents', 'documents_next']])
    expect(await reindex(app, { lockTimeout: 10_000 })).toMatchObject({ documents: kept.length, swapped: true })
    expect([await total('golf'), await indexes()]).toEqual([kept.length, ['documents']])
    expect(await Array.fromAsync(verify(app, { sample: 100 }))).toEqual([])
  })

  test('verify finds entries of deleted and foreign documents, wrong words and missing ones', async () => {
    const { app, ada, meilisearch } = await start()
    const ids = [
      await insertDocument(app.db, ada.id, { title: 'Hotel', content: 'india juliett' }),
      await insertDocument(app.db, ada.id, { title: '日本語', labels: ['kilo'] }),
      await insertDocument(app.db, ada.id, { title: 'Lima' }),
    ] as const
    await app.search.refresh(ids)
    expect(await Array.fromAsync(verify(app, { sample: 100 }))).toEqual([])
    // Past our own engine: PostgreSQL's index follows, this one does not.
    await app.db.updateTable('documents').set({ content: 'india mike' }).where('id', '=', ids[0]).execute()
    await app.db.updateTable('documents').set({ title: '日本' }).where('id', '=', ids[1]).execute()
    await openPostgres(app.db).refresh(ids)
    const strange = [
      { id: 'of-another', title: 'x' },
      { id: '01900000-0000-7000-8000-000000000009', title: 'qgone' },
    ]
    const done = async ({ taskUid }: { taskUid: number }) => {
      while ((await meilisearch.ask<{ status: string }>('GET', `/tasks/${taskUid}`)).status !== 'succeeded') await sleep(20)
    }
    await done(await meilisearch.ask('POST', '/indexes/documents/documents', strange))
    await done(await meilisearch.ask('DELETE', `/indexes/documents/documents/${ids[2]}`))
    const found = (await Array.fromAsync(verify(app, { sample: 100 }))).filter(({ problem }) => problem !== 'unfound')
    expect(
      found.map(({ document_id, problem, engine, left, lacks }) => [document_id, problem, engine, left.join(), lacks.join()]).sort(),
    ).toEqual(
      [
        ['of-another', 'extra', 'meilisearch', '', ''],
        ['01900000-0000-7000-8000-000000000009', 'extra', 'meilisearch', '', ''],
        [ids[2], 'missing', 'meilisearch', '', ''],
        [ids[0], 'stale', 'meilisearch', 'juliett', 'mike'],
        [ids[1], 'stale', 'meilisearch', '本語,語', '本'],
      ].sort(),
    )
  })
})
