import { describe, expect, onTestFinished, test } from 'vitest'
import { remoteClient } from '../../src/client/remote.ts'
import type { AppError } from '../../src/errors.ts'
import { noFilter, type SearchQuery } from '../../src/ports/search-engine.ts'
import { status } from '../../src/search/reindex.ts'
import { verify } from '../../src/search/verify.ts'
import { startApp, upload } from '../support/app.ts'
import { startKillable } from '../support/processes/killable.ts'
import { home, openSearchNodes } from '../support/servers/opensearch-server.ts'
import { tokenFor } from '../support/servers/server.ts'

const timeout = 900_000
/** A failed job waits for at most 100 s. */
const settleTimeoutMs = 240_000
const plainly: Omit<SearchQuery, 'text'> = { fuzzy: false, highlight: false, filter: noFilter, offset: 0, limit: 1000, maxResults: 1000 }

describe.skipIf(home === '')(`OpenSearch under faults${home === '' ? ' (skipped: OPENSEARCH_HOME names no program)' : ''}`, () => {
  test('killed and frozen: searches are 503 SERVICE_UNAVAILABLE, all else goes on, and everything is found afterwards', {
    timeout,
  }, async () => {
    const node = (await openSearchNodes())[0]!
    onTestFinished(() => node.remove())
    await node.start()
    const settings = { 'search.opensearch_urls': node.url, 'search.opensearch_timeout': '1s', 'search.keep_embedded': false }
    const { app, ada, dataDir, databaseUrl } = await startApp({ 'search.engine': 'opensearch', ...settings })
    const server = await startKillable(dataDir, {
      DATABASE_URL: databaseUrl,
      DMS_SEARCH_ENGINE: 'opensearch',
      DMS_SEARCH_KEEP_EMBEDDED: 'false',
      DMS_OPENSEARCH_URLS: node.url,
      DMS_OPENSEARCH_TIMEOUT: '1s',
      DMS_OCR_ENABLED: 'false',
    })
    const token = await tokenFor(app, ada)
    const client = remoteClient({ base: server.url, token: async () => token })
    onTestFinished(async () => {
      await client.close()
      await server.kill()
    })
    const unfinished = () => app.db.selectFrom('jobs').select(['status', 'attempts', 'error_code']).where('kind', '=', 'index').execute()
    const settled = () => expect.poll(unfinished, { timeout: settleTimeoutMs, interval: 100 }).toEqual([])
    const refused = async () => {
      const error = await client.search.query('kilo').catch((error: AppError) => error)
      return error instanceof Error ? [error.status, error.code] : []
    }
    const kept: string[] = []
    const addTo = async (round: string) => {
      for (let nth = 0; nth < 8; nth++) {
        const { id } = await upload(client, `${round}-${nth}.txt`, `kilo w${round}x${nth}`)
        if (nth % 4 === 3) await client.documents.delete(id)
        else kept.push(id)
      }
      expect((await client.documents.page({})).pagination.total).toBe(kept.length)
    }
    await addTo('before')
    await settled()
    await node.kill()
    await addTo('killed')
    expect(await refused()).toEqual([503, 'SERVICE_UNAVAILABLE'])
    await node.start()
    await settled()
    node.freeze()
    await addTo('frozen')
    expect(await refused()).toEqual([503, 'SERVICE_UNAVAILABLE'])
    expect(await (await fetch(`${server.url}/readyz`)).json()).toMatchObject({ status: 'degraded', checks: { search: 'fail' } })
    node.thaw()
    await settled()
    const { hits } = await app.search.search({ ...plainly, text: 'kilo' })
    expect(hits.map(({ document_id }) => document_id).sort()).toEqual(kept.toSorted())
    expect(await status(app)).toMatchObject({ documents: kept.length, drift: 0 })
    expect(await Array.fromAsync(verify(app, { sample: 100 }))).toEqual([])
  })
})
