import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { moveToTrash } from '../../../src/documents/trash/trash.ts'
import { maintain } from '../../../src/worker/maintenance.ts'
import { startApp, upload } from '../../support/app.ts'

const refusal = { status: 409, code: 'RETENTION', details: { worm: true } }

test('documents.worm: 409 RETENTION for every permanent deletion, also by admins; maintenance purges the trash after its time', async () => {
  const { app, asAda, asAdmin, ada, later, runJobs } = await startApp({ 'documents.worm': true, 'documents.trash_days': 30 })
  const { id, sha256 } = await upload(asAda, 'a.txt', 'text', { ocr_enabled: false })
  const { id: retained } = await upload(asAda, 'b.txt', 'text 2', { ocr_enabled: false })
  await asAda.documents.update(retained, { retain_until: '2090-01-01' })
  const bytes = Buffer.from('second')
  await asAda.documents.replace(id, { filename: 'a.txt', size: bytes.length, open: () => [bytes] })

  for (const client of [asAda, asAdmin])
    for (const path of [`/api/documents/${id}?permanent=true`, `/api/documents/${id}/versions/1`])
      await expect(client.call('DELETE', path)).rejects.toMatchObject(refusal)
  await expect(asAda.documents.checkDeletion(id, { permanent: true })).rejects.toMatchObject(refusal)
  expect(await asAda.documents.checkDeletion(id)).toEqual({ permanent: false })
  await expect(asAdmin.users.delete(ada.id, { documents: 'delete' })).rejects.toMatchObject(refusal)
  await app.db.transaction().execute((trx) => moveToTrash(app, trx, ada.id, [id, retained]))
  for (const client of [asAda, asAdmin]) await expect(client.call('DELETE', '/api/trash')).rejects.toMatchObject(refusal)
  await maintain(app, ['trash'])
  const left = async () => (await sql<{ id: string }>`select id from documents order by id`.execute(app.db)).rows.map((row) => row.id)
  expect(await left()).toEqual([id, retained])

  await later(31 * 86_400_000)
  await maintain(app, ['trash'])
  await runJobs()
  expect(await left()).toEqual([retained])
  expect(await app.db.selectFrom('stored_files').select('sha256').where('sha256', '=', sha256).execute()).toEqual([])
})

test('documents.worm without a trash: 409 RETENTION for a deletion, and maintenance purges no document that is in the trash', async () => {
  const { app, asAda, ada, later } = await startApp({ 'documents.worm': true, 'documents.trash_days': 0 })
  const { id } = await upload(asAda, 'a.txt', 'text', { ocr_enabled: false })
  await expect(asAda.call('DELETE', `/api/documents/${id}`)).rejects.toMatchObject(refusal)
  await app.db.transaction().execute((trx) => moveToTrash(app, trx, ada.id, [id]))
  await later(2 * 86_400_000)
  expect([await maintain(app, ['trash'], { isDryRun: true }), await maintain(app, ['trash'])]).toEqual([{ trash: 0 }, { trash: 0 }])
  expect(await asAda.trash.page()).toMatchObject({ data: [{ id }] })
})
