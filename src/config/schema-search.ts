/** Settings of the search engines. */
import { choice, duration, flag, header, integer, list, path, secret, text } from './setting.ts'
import * as kinds from './values.ts'

const node = kinds.textKind((url) => kinds.isUrl('http', 'https')(url) && !url.includes('@'), 'an http(s) URL without a password')

export const search = {
  engine: choice(['postgres', 'meilisearch', 'opensearch'], 'postgres', 'DMS_SEARCH_ENGINE'),
  keep_embedded: flag(true, 'DMS_SEARCH_KEEP_EMBEDDED'),
  url: text('http://127.0.0.1:7700', 'DMS_MEILI_URL', kinds.isUrl('http', 'https'), 'an http(s) URL'),
  api_key: secret(header('', 'DMS_MEILI_API_KEY')),
  index: text('documents', 'DMS_MEILI_INDEX', (name) => /^[\w-]{1,400}$/.test(name), 'an index name (letters, digits, - and _)'),
  batch_size: integer(500, 'DMS_MEILI_BATCH_SIZE', 1, 100_000),
  timeout: duration('10s', 'DMS_MEILI_TIMEOUT', '100ms'),
  opensearch_urls: list(node, ['http://127.0.0.1:9200'], 'DMS_OPENSEARCH_URLS'),
  opensearch_username: text('', 'DMS_OPENSEARCH_USERNAME'),
  opensearch_password: secret(text('', 'DMS_OPENSEARCH_PASSWORD')),
  opensearch_ca_file: path('', 'DMS_OPENSEARCH_CA_FILE'),
  opensearch_index: text(
    'dms',
    'DMS_OPENSEARCH_INDEX',
    // The old index of "dms" is kept as "dms-old".
    (name) => /^[a-z0-9][a-z0-9_-]{0,99}(?<!-old)$/.test(name),
    'an index name (lower-case letters, digits, - and _) that does not end with -old',
  ),
  opensearch_shards: integer(1, 'DMS_OPENSEARCH_SHARDS', 1, 1024),
  opensearch_replicas: integer(1, 'DMS_OPENSEARCH_REPLICAS', 0, 20),
  opensearch_refresh_interval: duration('1s', 'DMS_OPENSEARCH_REFRESH_INTERVAL', '10ms', '2s'),
  opensearch_timeout: duration('10s', 'DMS_OPENSEARCH_TIMEOUT', '100ms'),
}
