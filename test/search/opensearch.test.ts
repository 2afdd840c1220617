import { randomUUID } from 'node:crypto'
import { describe, onTestFinished } from 'vitest'
import { startApp } from '../support/app.ts'
import { searchSuite } from '../support/search-suite.ts'

const url = process.env.OPENSEARCH_URL ?? ''

describe.skipIf(url === '')('OpenSearch', () => {
  searchSuite('opensearch', async () => {
    const index = `test-${randomUUID()}`
    const { app, ada, bob } = await startApp({
      'search.engine': 'opensearch',
      'search.opensearch_urls': url,
      'search.opensearch_index': index,
      'search.opensearch_refresh_interval': '50ms',
      'search.keep_embedded': false,
    })
    onTestFinished(async () => {
      await fetch(`${url}/${index}-*`, { method: 'DELETE' })
    })
    return { db: app.db, engine: app.search, ownerId: ada.id, otherOwnerId: bob.id }
  })
})
