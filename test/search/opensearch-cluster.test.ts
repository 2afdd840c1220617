import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { noFilter, type SearchQuery } from '../../src/ports/search-engine.ts'
import { verify } from '../../src/search/verify.ts'
import { startApp } from '../support/app.ts'
import { insertDocument } from '../support/search-suite.ts'
import { home, openSearchNodes } from '../support/servers/opensearch-server.ts'

const timeout = 900_000
const plainly: Omit<SearchQuery, 'text'> = { fuzzy: false, highlight: false, filter: noFilter, offset: 0, limit: 10, maxResults: 100_000 }

const causeOf = (error: Error): string => (error.cause instanceof Error ? causeOf(error.cause) : error.message)

describe.skipIf(home === '')(`OpenSearch with three nodes${home === '' ? ' (skipped: OPENSEARCH_HOME names no program)' : ''}`, () => {
  test('a node is killed, then another: searches and indexing go on without an error, and nothing is lost', { timeout }, async () => {
    const nodes = await openSearchNodes(3)
    onTestFinished(async () => {
      await Promise.all(nodes.map((node) => node.remove()))
    })
    await Promise.all(nodes.map((node) => node.start()))
    const { app, ada } = await startApp({
      'search.engine': 'opensearch',
      'search.opensearch_urls': nodes.map(({ url }) => url).join(','),
      'search.opensearch_shards': 2,
      'search.opensearch_replicas': 1,
      'search.opensearch_refresh_interval': '200ms',
      'search.keep_embedded': false,
    })
    const ids: string[] = []
    const errors: unknown[] = []
    const add = async () => {
      const some = [
        await insertDocument(app.db, ada.id, { content: `common w${ids.length}` }),
        await insertDocument(app.db, ada.id, { content: 'common' }),
      ]
      await app.search.refresh(some)
      ids.push(...some)
    }
    for (let nth = 0; nth < 5; nth++) await add()
    const green = () => nodes[2]!.ask('GET', '/_cluster/health?wait_for_status=green&timeout=60s')
    await green()

    let isOver = false
    let searches = 0
    const found: number[] = []
    const searching = async () => {
      for (; !isOver; searches++) {
        const acknowledged = ids.length
        const total = await app.search.search({ ...plainly, text: 'common' }).then(
          (answer) => answer.total,
          (error: Error) => void errors.push(causeOf(error)),
        )
        if (total !== undefined) found.push(total - acknowledged)
        await sleep(10)
      }
    }
    const indexing = async () => {
      while (!isOver) await add().catch((error: Error) => errors.push(causeOf(error)))
    }
    const load = Promise.all([searching(), searching(), indexing()])
    // The first is the manager of the cluster, or holds shards of the index.
    for (const node of nodes.slice(0, 2)) {
      await sleep(1000)
      const before = ids.length
      await node.kill()
      while (ids.length < before + 10 && errors.length === 0) await sleep(50)
      await node.start()
      await green()
    }
    isOver = true
    await load

    expect(errors).toEqual([])
    expect(searches).toBeGreaterThan(20)
    // No search missed an acknowledged document.
    expect(Math.min(...found)).toBeGreaterThanOrEqual(0)
    expect((await app.search.search({ ...plainly, text: 'common' })).total).toBe(ids.length)
    expect(await Array.fromAsync(verify(app, { sample: 50 }))).toEqual([])
  })
})
