import { readFile } from 'node:fs/promises'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { moveToTrash } from '../../src/documents/trash/trash.ts'
import { ocr } from '../../src/metrics/metrics.ts'
import { buildServer } from '../../src/server/http/assemble.ts'
import { openRecorder } from '../../src/server/http/request-metrics.ts'
import { openMetricsPort } from '../../src/server/metrics-port.ts'
import { openWebSockets } from '../../src/server/websocket/websocket.ts'
import { startApp, upload } from '../support/app.ts'
import { replace } from '../support/data/versions.ts'
import { startServer, tokenFor } from '../support/servers/server.ts'

type Started = Awaited<ReturnType<typeof startApp>>

const hour = 3_600_000

/** Creates a job of a document of Ada that finished `ago` milliseconds ago after `seconds`. */
async function read(
  { app, ada }: Started,
  status: 'completed' | 'failed' | 'cancelled',
  ago: number,
  seconds: number,
  more: { language?: string; confidence?: number; pages?: number; code?: string } = {},
) {
  const finished_at = new Date(app.now().getTime() - ago)
  const sha256 = 'a'.repeat(64)
  await app.db
    .insertInto('stored_files')
    .values({ sha256, address: sha256, size: 1 })
    .onConflict((conflict) => conflict.doNothing())
    .execute()
  const { id } = await app.db
    .insertInto('documents')
    .values({
      owner_id: ada.id,
      title: 'a',
      filename: 'a.png',
      mime_type: 'image/png',
      size: 1,
      sha256,
      language: 'eng',
      metadata: '{}',
      ocr_confidence: more.confidence ?? null,
      page_count: more.pages ?? 1,
    })
    .returning('id')
    .executeTakeFirstOrThrow()
  await app.db
    .insertInto('jobs')
    .values({
      kind: 'ocr',
      queue: 'ocr',
      status,
      document_id: id,
      payload: JSON.stringify({ language: more.language ?? 'eng' }),
      started_at: new Date(finished_at.getTime() - seconds * 1000),
      finished_at,
      error_code: more.code ?? null,
    })
    .execute()
}

describe('GET /api/metrics/system', () => {
  test('200 with percentages of the host, the connections of all running servers, and whole seconds', async () => {
    const { app, asAda } = await startApp()
    await app.db
      .insertInto('servers')
      .values([
        { id: '01890a5d-ac96-774b-bcce-000000000001', http_connections: 3, ws_connections: 2, started_at: new Date(Date.now() - hour) },
        { id: '01890a5d-ac96-774b-bcce-000000000002', http_connections: 4, ws_connections: 1 },
        { id: '01890a5d-ac96-774b-bcce-000000000003', http_connections: 9, ws_connections: 9, seen_at: new Date(Date.now() - hour) },
        // Its connections are free for others already.
        { id: '01890a5d-ac96-774b-bcce-000000000004', http_connections: 9, ws_connections: 9, seen_at: new Date(Date.now() - 55_000) },
      ])
      .execute()
    const metrics = await asAda.call<Record<string, number>>('GET', '/api/metrics/system')
    expect(Object.keys(metrics).sort()).toEqual(['active_connections', 'cpu_usage', 'disk_usage', 'memory_usage', 'uptime_seconds'])
    expect(metrics.active_connections).toBe(10)
    for (const name of ['cpu_usage', 'memory_usage', 'disk_usage']) expect(metrics[name], name).toBeLessThanOrEqual(100)
    expect(metrics.memory_usage).toBeGreaterThan(0)
    expect(metrics.disk_usage).toBeGreaterThan(0)
    // Asked beside the servers, as at the shell: not the time that whoever asks has run.
    expect(metrics.uptime_seconds).toBeGreaterThanOrEqual(3600)
    expect(metrics.uptime_seconds).toBeLessThan(3660)
    await app.db.deleteFrom('servers').execute()
    expect(await asAda.call('GET', '/api/metrics/system')).toMatchObject({ active_connections: 0, uptime_seconds: 0 })
  })

  test('active_connections counts open connections; the uptime is that of the server, also if the shell asks', async () => {
    const { app, asAda, dial, listening, url, ada } = await startServer()
    const live = await openWebSockets(app, listening.server)
    onTestFinished(() => live.close())
    const token = await tokenFor(app, ada)
    const answer = await fetch(`${url}/api/metrics/system`, { headers: { authorization: `Bearer ${token}`, connection: 'close' } })
    const { uptime_seconds } = (await answer.json()) as { uptime_seconds: number }
    expect(Math.abs(uptime_seconds - process.uptime())).toBeLessThan(30)
    expect(Math.abs((await asAda.metrics.system()).uptime_seconds - process.uptime())).toBeLessThan(30)
    const shown = (count: number) =>
      vi.waitFor(async () => expect(await asAda.call('GET', '/api/metrics/system')).toMatchObject({ active_connections: count }), 60_000)
    const sockets = [await dial(), await dial(), await dial()]
    await shown(3)
    sockets[0]?.destroy()
    await shown(2)
  })
})

describe('GET /api/metrics/ocr', () => {
  test('200 with zeros and thirty empty days, the last one today, before the first OCR', async () => {
    const { app, asAda } = await startApp()
    const analytics = await asAda.call<Awaited<ReturnType<typeof ocr>>>('GET', '/api/metrics/ocr')
    expect(analytics).toMatchObject({ total_processed: 0, success_rate: 0, average_processing_time: 0, languages_used: {} })
    expect(analytics.daily_stats).toHaveLength(30)
    expect(analytics.daily_stats.at(-1)).toEqual({
      date: app.now().toISOString().slice(0, 10),
      processed: 0,
      succeeded: 0,
      failed: 0,
      pages: 0,
      average_processing_time: null,
      average_confidence: null,
    })
    const dates = analytics.daily_stats.map(({ date }) => date)
    expect(new Set(dates).size).toBe(30)
    expect([...dates].sort()).toEqual(dates)
  })

  test('counts finished jobs by result, language and day in UTC; none that were cancelled or finished before maintenance.jobs_keep', async () => {
    const started = await startApp()
    const now = () => new Date('2026-03-02T12:00:00Z')
    const at = { ...started, app: { ...started.app, now } }
    await read(at, 'completed', 1 * hour, 2, { language: 'eng+deu', confidence: 0.9, pages: 3 })
    await read(at, 'completed', 11 * hour, 4, { confidence: 0.7, pages: 2 })
    await read(at, 'completed', 13 * hour, 6)
    await read(at, 'failed', 2 * hour, 60, { language: 'fra' })
    await read(at, 'cancelled', 2 * hour, 60)
    await read(at, 'completed', 40 * 24 * hour, 8, { language: 'deu' })
    const analytics = await ocr(at.app, at.ada.actor)
    expect(analytics).toMatchObject({
      total_processed: 4,
      success_rate: 0.75,
      average_processing_time: 4,
      languages_used: { eng: 3, deu: 1 },
    })
    expect(analytics.languages_used).not.toHaveProperty('fra')
    expect(analytics.daily_stats.filter(({ processed }) => processed > 0)).toEqual([
      { date: '2026-03-01', processed: 1, succeeded: 1, failed: 0, pages: 1, average_processing_time: 6, average_confidence: null },
      { date: '2026-03-02', processed: 3, succeeded: 2, failed: 1, pages: 5, average_processing_time: 3, average_confidence: 0.8 },
    ])
    expect([analytics.daily_stats[0]?.date, analytics.daily_stats[29]?.date]).toEqual(['2026-02-01', '2026-03-02'])
  })

  test('users see figures of their own documents, admins of all', async () => {
    const started = await startApp()
    await read(started, 'completed', 0, 1)
    const totals = await Promise.all(
      [started.asAda, started.asBob, started.asAdmin].map(
        async (who) => (await who.call<Awaited<ReturnType<typeof ocr>>>('GET', '/api/metrics/ocr')).total_processed,
      ),
    )
    expect(totals).toEqual([1, 0, 1])
  })
})

describe('GET /metrics', () => {
  const sample = (text: string, name: string) =>
    Number(
      text
        .split('\n')
        .find((line) => line.startsWith(`${name} `))
        ?.split(' ')
        .at(-1),
    )

  test('200 in the format of Prometheus: each sample below its HELP and TYPE, unique names, cumulative buckets', async () => {
    const started = await startServer()
    await upload(started.asAda, 'a.txt', 'apples')
    await read(started, 'failed', 0, 3, { code: 'FILE_CORRUPT' })
    await started.fetch('/api/documents')
    const response = await fetch(`${started.url}/metrics`)
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/plain; version=0.0.4; charset=utf-8'])
    const text = await response.text()
    const types = new Map([...text.matchAll(/^# TYPE (\S+) (\w+)$/gm)].map(([, name = '', type = '']) => [name, type]))
    expect([...text.matchAll(/^# TYPE (\S+)/gm)]).toHaveLength(types.size)
    const series = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
    expect(series.length).toBeGreaterThan(50)
    for (const line of series) {
      expect(line).toMatch(/^[a-z_]+(\{([a-z_]+="([^"\\\n]|\\.)*",?)+\})? (-?[\d.e+-]+|[+-]Inf)$/)
      const name = /^[a-z_]+/.exec(line)?.[0] ?? ''
      expect(types.has(name) || types.get(name.replace(/_(bucket|sum|count)$/, '')) === 'histogram', name).toBe(true)
    }
    expect(new Set(series.map((line) => line.replace(/ \S+$/, ''))).size).toBe(series.length)
    const buckets = series.filter((line) =>
      line.startsWith('dms_http_request_duration_seconds_bucket{method="GET",route="/api/documents",status="200"'),
    )
    const counts = buckets.map((line) => Number(line.split(' ').at(-1)))
    expect(counts).toEqual([...counts].sort((a, b) => a - b))
    expect([buckets.at(-1), counts.at(-1)]).toEqual([expect.stringContaining('le="+Inf"'), 1])
  })

  test('histograms count each finished job once, with any number of scrapes', async () => {
    const started = await startServer()
    await started.later(60_000)
    const ask = async () => (await fetch(`${started.url}/metrics`)).text()
    await read(started, 'completed', 20_000, 3, { confidence: 0.9 })
    await read(started, 'failed', 20_000, 700)
    const first = await ask()
    expect(first).toContain('dms_job_duration_seconds_bucket{queue="ocr",result="completed",le="2.5"} 0\n')
    expect(first).toContain('dms_job_duration_seconds_bucket{queue="ocr",result="completed",le="5"} 1\n')
    expect(first).toContain('dms_job_duration_seconds_bucket{queue="ocr",result="failed",le="600"} 0\n')
    expect(first).toContain('dms_job_duration_seconds_sum{queue="ocr",result="failed"} 700\n')
    expect(first).toContain('dms_ocr_confidence_bucket{le="0.85"} 0\n')
    expect(first).toContain('dms_ocr_confidence_bucket{le="0.9"} 1\n')
    await started.app.db.updateTable('jobs').set({ pages_done: 4 }).execute()
    await started.later(60_000)
    await read(started, 'completed', 20_000, 4, { confidence: 0.2 })
    await started.app.db.updateTable('jobs').set({ pages_done: 4 }).execute()
    const [second] = await Promise.all([ask(), ask()])
    expect(second).toContain('dms_job_duration_seconds_count{queue="ocr",result="completed"} 2\n')
    expect(second).toContain('dms_ocr_confidence_count 2\n')
    expect(second).toContain('dms_ocr_pages_total 4\n')
  })

  test('GET /livez is ok; GET /readyz?verbose has one line of text per check', async () => {
    const { url } = await startServer()
    expect(await (await fetch(`${url}/livez`)).text()).toBe('ok\n')
    const ready = await fetch(`${url}/readyz?verbose`)
    expect([ready.status, ready.headers.get('content-type')]).toEqual([200, 'text/plain'])
    expect(await ready.text()).toBe('[+]database ok\n[+]schema ok\n[+]storage ok\n[+]search ok\n[-]worker fail\ndegraded\n')
    expect(await (await fetch(`${url}/readyz`)).json()).toMatchObject({ status: 'degraded', checks: { database: 'ok' } })
  })

  test('counts requests by route pattern, failures by code, refusals by limit; and has queue and store', async () => {
    const started = await startServer({ 'limits.comments_per_minute': 1 })
    const { id } = await upload(started.asAda, 'a.txt', 'apples')
    await read(started, 'failed', 0, 3, { code: 'FILE_CORRUPT' })
    for (const path of [`/api/documents/${id}`, '/api/documents/nonsense', '/api/documents/x', '/nowhere', `/api/v1/documents/${id}`])
      await started.fetch(path)
    for (let time = 0; time < 3; time++)
      await started.fetch(`/api/comments/documents/${id}/comments`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: '{"content":"again"}',
      })
    await started.fetch('/api/comments/documents/x/comments', { method: 'POST' })
    expect((await fetch(`${started.url}/api/documents/%ff`)).status).toBe(404)
    const text = await (await fetch(`${started.url}/metrics`)).text()
    const of = (labels: string) => sample(text, `dms_http_requests_total{method="GET",route=${labels}}`)
    expect([of('"/api/documents/:id",status="200"'), of('"/api/documents/:id",status="404"'), of('"none",status="404"')]).toEqual([2, 2, 2])
    expect(text).not.toContain(id)
    expect(sample(text, 'dms_http_failures_total{code="DOCUMENT_NOT_FOUND"}')).toBe(2)
    expect(sample(text, 'dms_http_failures_total{code="COMMENT_DOCUMENT_NOT_FOUND"}')).toBe(1)
    expect(sample(text, 'dms_rate_limited_total{scope="comment"}')).toBe(2)
    expect(sample(text, 'dms_http_requests_in_flight')).toBe(1)
    expect(sample(text, 'dms_jobs{queue="ocr",state="pending"}')).toBe(1)
    expect(sample(text, 'dms_oldest_pending_job_age_seconds{queue="ocr"}')).toBeGreaterThan(0)
    expect(sample(text, 'dms_jobs_finished_last_hour{queue="ocr",result="failed"}')).toBe(1)
    expect(sample(text, 'dms_documents{status="pending"}')).toBe(2)
    expect(sample(text, 'dms_storage_bytes')).toBe('apples'.length + 1)
    expect(sample(text, 'dms_storage_free_bytes')).toBeGreaterThan(0)
    expect(sample(text, 'dms_database_up')).toBe(1)
    expect(sample(text, 'process_resident_memory_bytes')).toBeGreaterThan(1e7)
  })

  test('dms_jobs_failed counts the last failure of each document until the document has been read', async () => {
    const started = await startServer()
    const { app, later, url } = started
    const failed = async () => {
      await later(60_000)
      return sample(await (await fetch(`${url}/metrics`)).text(), 'dms_jobs_failed{code="FILE_CORRUPT"}')
    }
    await read(started, 'failed', 0, 3, { code: 'FILE_CORRUPT' })
    await app.db.updateTable('documents').set({ status: 'failed' }).execute()
    expect(await failed()).toBe(1)
    await app.db.updateTable('documents').set({ status: 'completed' }).execute()
    expect(await failed()).toBeNaN()
  })

  test('versions, the trash, and bytes by their only use: bytes of several versions count once', async () => {
    const started = await startServer()
    const { app, asAda, asBob, runJobs, url } = started
    const [one, two, three] = [
      await upload(asAda, 'a.txt', 'apples'),
      await upload(asAda, 'b.txt', 'bananas!'),
      await upload(asAda, 'c.txt', 'cherry'),
    ]
    await upload(asBob, 'b.txt', 'bananas!')
    for (const text of ['oranges and', 'apples', 'lemons']) await replace(asAda, one.id, 'a.txt', text)
    await replace(asAda, two.id, 'b.txt', 'grapes')
    await runJobs()
    await app.db.transaction().execute((trx) => moveToTrash(app, trx, null, [three.id]))
    const text = await (await fetch(`${url}/metrics`)).text()
    expect(sample(text, 'dms_trash_documents')).toBe(1)
    const ofState = (state: string) => sample(text, `dms_document_versions{state="${state}"}`)
    expect([ofState('current'), ofState('old')]).toEqual([3, 4])
    const of = (use: string) => sample(text, `dms_storage_use_bytes{use="${use}"}`)
    const [current, old, trash] = ['lemonsgrapesbananas!', 'applesoranges and', 'cherry'].map(({ length }) => length)
    expect([of('current'), of('old_versions'), of('trash')]).toEqual([current, old, trash])
  })

  test('from an address that is not allowed: 401 without a token, 403 for a user, 200 for an admin', async () => {
    const { asStranger, asAda, asAdmin } = await startApp({ 'server.metrics_allow': '192.0.2.0/24' })
    const statuses = await Promise.all([asStranger, asAda, asAdmin].map(async (who) => (await who.send('GET', '/metrics')).status))
    expect(statuses).toEqual([401, 403, 200])
  })

  test('401 for requests that a proxy forwards, whether or not the proxy is configured', async () => {
    for (const trusted of ['', '127.0.0.1']) {
      const { url } = await startServer({ 'server.trusted_proxies': trusted })
      const asked = (forwarded: string) => fetch(`${url}/metrics`, { headers: { 'x-forwarded-for': forwarded } })
      expect((await asked('198.51.100.7')).status).toBe(401)
      if (trusted) expect((await asked('127.0.0.1')).status).toBe(200)
    }
  })

  test('it answers without the database, and reports the outage', async () => {
    const { app, asStranger } = await startApp()
    await app.db.schema.dropTable('workers').execute()
    const response = await asStranger.send('GET', '/metrics')
    const text = await response.text()
    expect([response.status, sample(text, 'dms_database_up')]).toEqual([200, 0])
    expect(text).toContain('dms_http_requests_in_flight 1')
  })

  test('without the document folder, dms_database_up is 1 and only dms_storage_free_bytes is missing', async () => {
    const { app, asStranger, dataDir } = await startApp()
    Object.assign(app.config.storage, { path: `${dataDir}/lost` })
    const text = await (await asStranger.send('GET', '/metrics')).text()
    expect([sample(text, 'dms_database_up'), sample(text, 'dms_storage_bytes')]).toEqual([1, 0])
    expect(text).not.toContain('dms_storage_free_bytes')
  })

  test('metrics.enabled: a separate port has equal metrics, with the token if one is set', async () => {
    for (const token of ['', 'a token for metrics']) {
      const { app } = await startApp({ 'metrics.listen': '127.0.0.1:0', 'metrics.token': token })
      const recorder = openRecorder()
      const { url, close } = await openMetricsPort(app, recorder)
      onTestFinished(close)
      await buildServer(app, { recorder }).request('/healthz')
      const asked = (path: string, bearer: string) => fetch(url + path, { headers: bearer ? { authorization: `Bearer ${bearer}` } : {} })
      expect((await asked('/metrics', token ? 'another' : '')).status).toBe(token ? 401 : 200)
      expect((await asked('/api/health', token)).status).toBe(404)
      const text = await (await asked('/metrics', token)).text()
      expect(sample(text, 'dms_http_requests_total{method="GET",route="/healthz",status="200"}')).toBe(1)
      expect(sample(text, 'dms_database_up')).toBe(1)
    }
  })

  test('a metrics port in use is a configuration error', async () => {
    const { app, listening } = await startServer()
    const taken = { ...app, config: { ...app.config, metrics: { ...app.config.metrics, listen: new URL(listening.url).host } } }
    await expect(openMetricsPort(taken, openRecorder())).rejects.toThrow(/metrics\.listen: cannot listen on 127\.0\.0\.1:\d+/)
  })

  test('the alert rules use existing metrics only', async () => {
    const { app, asStranger } = await startApp()
    await app.db
      .insertInto('sources')
      .values({
        owner_id: (await app.db.selectFrom('users').select('id').executeTakeFirstOrThrow()).id,
        name: 's',
        type: 'webdav',
        url: 'https://example.org',
        credentials: null,
        last_sync: null,
        next_sync: null,
        last_error: null,
      })
      .execute()
    await app.db
      .insertInto('runs')
      .values([
        { name: 'backup', last_success_at: new Date() },
        { name: 'rehearsal', last_success_at: new Date() },
        { name: 'tables_backup', last_success_at: new Date() },
      ])
      .execute()
    const told = await (await asStranger.send('GET', '/metrics')).text()
    const rules = await readFile(new URL('../../alerts.example.yml', import.meta.url), 'utf8')
    expect(rules).toContain('dms_tables_backup_last_success_timestamp_seconds')
    const named = [...rules.matchAll(/\b(?:dms|nodejs|process)_[a-z_]+/g)].map(([name]) => name.replace(/_bucket$/, ''))
    expect(new Set(named).size).toBeGreaterThan(10)
    // These appear with the first document that was read, and the first request that was answered.
    const later = ['dms_jobs_finished_last_hour', 'dms_jobs_failed', 'dms_http_requests_total', 'dms_http_request_duration_seconds']
    expect([...new Set(named)].filter((name) => !later.includes(name) && !told.includes(`# TYPE ${name} `))).toEqual([])
  })
})
