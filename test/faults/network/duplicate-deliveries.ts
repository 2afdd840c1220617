/** F23: many equal requests at once have one effect. */
import { randomBytes, randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Fault, type FaultContext, type FaultResult, openFaultRun } from '../fault.ts'
import { openShare } from '../sources/webdav-share.ts'

const together = 10

export const duplicateDeliveries: Fault = { id: 'F23', name: 'the same request ten times at once', run }

async function run({ installation, isShort }: FaultContext): Promise<FaultResult> {
  const server = await installation.start({ env: { DMS_OCR_ENABLED: 'false' } })
  const faultRun = await openFaultRun(installation)
  const { caller, expect, ledger } = faultRun
  const share = await openShare()
  installation.atEnd(() => share.close())
  const rounds = isShort ? 2 : 10
  const all = <T>(work: () => Promise<T>): Promise<T[]> => Promise.all(Array.from({ length: together }, work))
  const counts = (answers: readonly { status: number }[]) => answers.map(({ status }) => status).sort()

  for (let round = 0; round < rounds; round++) {
    // Contents are unique in each round: the audit takes equal bytes for a request that was executed twice.
    for (let file = 0; file < 20; file++) share.files.set(`${file}.txt`, Buffer.from(`file ${file} of round ${round}`))
    const made = await caller.call(
      'POST',
      '/api/sources',
      caller.json({ name: `share ${round}`, type: 'webdav', url: share.url, sync_interval: 0 }),
    )
    const { id } = JSON.parse(made.body.toString()) as { id: string }
    const syncs = counts(await all(() => caller.call('POST', `/api/sources/${id}/sync`, caller.json({}))))
    // A sync that ends before the last request may be followed by another one without changes.
    expect(syncs.every((status) => status === 202 || status === 409) && syncs.includes(202), `sync: answered with ${syncs}`)

    const [bytes, key] = [randomBytes(50_000), randomUUID()]
    const uploads = await all(() => caller.upload(bytes, 'same.bin', { key }))
    const ids = new Set(uploads.flatMap(({ id: one }) => (one === null ? [] : [one])))
    expect(ids.size === 1, `upload: ${ids.size} documents under one key (${counts(uploads)})`)
    const [documentId = ''] = ids

    const link = await caller.call('POST', '/api/shared-links', caller.json({ document_id: documentId, max_views: 3 }))
    const { id: linkId, token } = JSON.parse(link.body.toString()) as { id: string; token: string }
    const views = counts(await all(() => caller.call('POST', `/api/public/shared/${token}/download`, caller.json({}))))
    expect(views.filter((status) => status === 200).length === 3, `download: 3 views were allowed, and the answers were ${views}`)
    const revokes = counts(await all(() => caller.call('DELETE', `/api/shared-links/${linkId}`)))
    expect(
      revokes.every((status) => status < 500 && status !== 0),
      `revoke: answered with ${revokes}`,
    )

    const deletes = counts(await all(() => caller.call('DELETE', `/api/documents/${documentId}?permanent=true`)))
    expect(deletes.filter((status) => status === 204).length === 1, `delete: answered with ${deletes}`)
    ledger.deleted.add(documentId)
    // The share has other contents in the next round.
    const isSynced = async () =>
      (await installation.query(`select from documents where source_id = '${id}'`)).length === 20 &&
      (await installation.query(`select from jobs where kind = 'sync' and status in ('pending', 'processing')`)).length === 0
    for (const end = performance.now() + 120_000; !(await isSynced()) && performance.now() < end; ) await sleep(100)
    expect(await isSynced(), 'the sync does not end')
  }
  const twice = () =>
    installation.query<{ source_path: string }>(
      'select source_path from documents where source_id is not null group by source_id, source_path having count(*) > 1',
    )
  const result = await faultRun.finish(`${rounds} × 5 requests, each ${together} times at once`)
  const remaining = await twice()
  await server.kill()
  return { ...result, duplicate: result.duplicate + remaining.length }
}
