/** A whole archive with its files in S3: outages, redirects, backups. */
import { randomBytes } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { remoteClient } from '../../src/client/remote.ts'
import { startApp, upload } from '../support/app.ts'
import { archiveOf, consistent, entriesOf } from '../support/data/crafted-backup.ts'
import { emptyPlace, here } from '../support/places.ts'
import { hasS3Server, type S3Server, startS3 } from '../support/servers/s3-server.ts'
import { bucketSettings } from '../support/servers/s3-settings.ts'
import { startServer } from '../support/servers/server.ts'
import { startTcpRelay } from '../support/servers/tcp-relay.ts'

vi.setConfig({ testTimeout: 120_000 })

let server: S3Server

/** Returns the variables of a command with these settings. */
const envOf = (settings: Awaited<ReturnType<typeof bucketSettings>>) => ({
  DMS_STORAGE_KIND: 's3',
  DMS_S3_ENDPOINT: server.url,
  DMS_S3_BUCKET: String(settings['storage.s3_bucket']),
  DMS_S3_PREFIX: 'archive',
  DMS_S3_ACCESS_KEY_ID: server.username,
  DMS_S3_SECRET_ACCESS_KEY: server.password,
  DMS_S3_FORCE_PATH_STYLE: 'true',
  DMS_STORAGE_MIN_FREE: '0',
})

const codeOf = async (response: Response) => [response.status, ((await response.json()) as { error: { code: string } }).error.code]

describe.runIf(hasS3Server())('Swift', () => {
  beforeAll(async () => {
    server = await startS3()
  })
  afterAll(() => server?.stop())

  test('an outage, and a silent server: uploads and downloads are 503 STORAGE_UNAVAILABLE, all else goes on, and jobs wait without costing an attempt', async () => {
    const relay = await startTcpRelay(server.url)
    const dms = await startServer({ ...(await bucketSettings(server)), 'storage.s3_endpoint': relay.url, 'storage.s3_timeout': '2s' })
    const document = await upload(dms.asAda, 'note.txt', 'A note about harbour fees')
    await relay.cut()
    const form = new FormData()
    form.append('file', new Blob(['other']), 'other.txt')
    const refused = await dms.fetch('/api/documents/upload', { method: 'POST', body: form })
    expect(refused.headers.get('retry-after')).toBe('30')
    expect(await codeOf(refused)).toEqual([503, 'STORAGE_UNAVAILABLE'])
    const download = `/api/documents/${document.id}/download`
    expect(await codeOf(await dms.fetch(download))).toEqual([503, 'STORAGE_UNAVAILABLE'])
    expect((await dms.fetch('/api/documents')).status).toBe(200)
    const ready = await fetch(new URL('/readyz', dms.url))
    expect([ready.status, await ready.json()]).toMatchObject([200, { status: 'degraded', checks: { storage: 'fail' } }])
    await dms.runJobs(['ocr'])
    const jobs = () => dms.app.db.selectFrom('jobs').select(['kind', 'status', 'attempts']).where('kind', '=', 'ocr').execute()
    expect(await jobs()).toEqual([{ kind: 'ocr', status: 'pending', attempts: 0 }])
    await relay.resume()
    relay.silence(true)
    const unanswered = await dms.fetch('/api/documents/upload', { method: 'POST', body: form })
    expect([await codeOf(unanswered), unanswered.headers.get('retry-after')]).toEqual([[503, 'STORAGE_UNAVAILABLE'], '30'])
    relay.silence(false)
    expect(await (await dms.fetch(download)).text()).toBe('A note about harbour fees')
    await dms.later(60_000)
    await dms.runJobs(['ocr'])
    expect((await dms.asAda.documents.get(document.id)).status).toBe('completed')
    expect(await dms.app.files.listUncommitted()).toEqual([])
  })

  test('redirect_downloads: 302 to a URL that needs no token, and 303 for shared links without limits only', async () => {
    const dms = await startServer({ ...(await bucketSettings(server)), 'storage.redirect_downloads': true })
    const bytes = randomBytes(9_000_000)
    for (const body of [Buffer.from('hello'), bytes]) {
      const { id } = await upload(dms.asAda, 'Grüße, "1".bin', body)
      const answer = await dms.fetch(`/api/documents/${id}/download`, { redirect: 'manual' })
      expect([answer.status, answer.headers.get('cache-control')]).toEqual([302, 'private, no-store'])
      const file = await fetch(answer.headers.get('location') ?? '')
      expect(Buffer.from(await file.arrayBuffer()).equals(body)).toBe(true)
      expect(file.headers.get('content-disposition')).toMatch(/^attachment; .*filename\*=UTF-8''Gr%C3%BC%C3%9Fe/)
      const part = await dms.fetch(`/api/documents/${id}/download`, { headers: { range: 'bytes=1-3' } })
      expect([part.status, Buffer.from(await part.arrayBuffer()).equals(body.subarray(1, 4))]).toEqual([206, true])
      const client = remoteClient({ base: dms.url, token: async () => dms.token })
      const response = await client.documents.download(id)
      expect(response.headers.get('repr-digest')).toBe(answer.headers.get('repr-digest'))
      expect(Buffer.from(await response.arrayBuffer()).equals(body)).toBe(true)
      await client.close()
    }
    const { id } = await upload(dms.asAda, 'shared.txt', 'shared')
    const statusOf = async (terms: { max_views?: number; password?: string }, password?: string) => {
      const { token } = await dms.asAda.call<{ token: string }>('POST', '/api/shared-links', { document_id: id, ...terms })
      const body = password === undefined ? {} : { body: JSON.stringify({ password }), headers: { 'content-type': 'application/json' } }
      const open = () => fetch(new URL(`/api/public/shared/${token}/download`, dms.url), { method: 'POST', redirect: 'manual', ...body })
      return [(await open()).status, (await open()).status]
    }
    expect(await statusOf({})).toEqual([303, 303])
    expect(await statusOf({ max_views: 1 })).toEqual([200, 410])
    expect(await statusOf({ password: 'a secret word' }, 'a secret word')).toEqual([200, 200])
  })

  test('3 for restore --skip-damaged of a backup in which files have the bytes of others: these keep their files', async () => {
    const settings = await bucketSettings(server)
    const dms = await startApp()
    const large = randomBytes(9_000_000)
    const [whole, lost] = [new Map<string, Buffer>(), [] as string[]]
    for (const [name, bytes] of [['small', Buffer.from('Harbour fees')] as const, ['large', large] as const]) {
      whole.set((await upload(dms.asAda, `${name}.bin`, bytes)).id, bytes)
      lost.push((await upload(dms.asAda, `${name} lost.bin`, Buffer.concat([bytes, Buffer.from('!')]))).id)
    }
    const archive = join(dms.dataDir, 'a.tar')
    expect((await here({ databaseUrl: dms.databaseUrl, dataDir: dms.dataDir }, ['backup', 'create', '--to', archive])).code).toBe(0)
    const entries = (await entriesOf(archive)).map((entry) => {
      const other = [...whole.values()].find((bytes) => entry.bytes.length === bytes.length + 1 && entry.path.startsWith('files/'))
      return other ? { ...entry, bytes: other } : entry
    })
    await writeFile(archive, archiveOf(consistent(entries)))
    const to = await emptyPlace()
    const env = envOf(settings)
    const { code, stdout } = await here(to, ['restore', archive, '-q', '--skip-damaged', '--json'], { env })
    const { items } = JSON.parse(stdout) as { items: { document_id: string }[] }
    expect([code, items.map(({ document_id }) => document_id).sort()]).toEqual([3, lost.toSorted()])
    for (const [id, bytes] of whole) {
      const file = join(to.dataDir, `${id}.bin`)
      expect(await here(to, ['documents', 'download', id, '--to', file], { env })).toMatchObject({ code: 0 })
      expect((await readFile(file)).equals(bytes)).toBe(true)
    }
  })

  test('a backup of it is restored into another bucket; check and doctor find nothing', async () => {
    const settings = await bucketSettings(server)
    const dms = await startServer(settings)
    await upload(dms.asAda, 'small.txt', 'Harbour fees')
    await upload(dms.asAda, 'large.bin', randomBytes(9_000_000))
    await dms.runJobs()
    const place = { databaseUrl: dms.databaseUrl, dataDir: dms.dataDir }
    const backups = join(dms.dataDir, 'backups')
    const env = envOf(settings)
    expect(await here(place, ['check', '--sample', '100%'], { env })).toMatchObject({ code: 0 })
    expect((await here(place, ['doctor', '--only', 'storage'], { env })).stdout).toMatch(/s3:\/\//)
    expect(await here(place, ['backup', 'create', '--to', `${backups}/a.tar`], { env })).toMatchObject({ code: 0 })
    const wrongKey = { env: { ...env, DMS_S3_SECRET_ACCESS_KEY: 'wrong' } }
    const refused = await here(place, ['backup', 'create', '--to', `${backups}/b.tar`], wrongKey)
    expect(refused).toMatchObject({ code: 69, stderr: expect.stringContaining('(S3 answers 403') })
    const to = await emptyPlace()
    const other = envOf(await bucketSettings(server))
    expect(await here(to, ['restore', `${backups}/a.tar`, '-q'], { env: other })).toMatchObject({ code: 0 })
    expect(await here(to, ['check', '--sample', '100%'], { env: other })).toMatchObject({ code: 0 })
    expect(await here(to, ['restore', `${backups}/a.tar`, '-q'], { env: other })).not.toMatchObject({ code: 0 })
  })
})
