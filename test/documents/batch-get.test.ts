import { rm } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { readTar } from '../../src/backup/tar.ts'
import { addressOf } from '../../src/documents/stored-files.ts'
import { startApp, upload } from '../support/app.ts'

async function entriesOf(response: Response): Promise<Record<string, string>> {
  const found: Record<string, string> = {}
  for await (const { path, bytes } of readTar(response.body as unknown as AsyncIterable<Uint8Array>))
    found[path] = Buffer.concat(await Array.fromAsync(bytes)).toString()
  return found
}

test('batch-get: 200 with the files and texts of own documents; omits those of others, deleted ones and missing files', async () => {
  const { app, asAda, asBob, asAdmin, runJobs } = await startApp()
  const one = await upload(asAda, 'one.txt', 'first')
  const long = await upload(asAda, `${'é'.repeat(100)}.txt`, 'second')
  const bobs = await upload(asBob, 'bob.txt', 'of Bob')
  await runJobs()
  const ids = [long.id, one.id, bobs.id, one.id, '01900000-0000-7000-8000-0123456789ab']
  const name = `${'é'.repeat(29)}.txt`
  expect(await entriesOf(await asAda.documents.batchGet(ids, { withText: true }))).toEqual({
    [`${long.id}/${name}`]: 'second',
    [`${long.id}.txt`]: 'second',
    [`${one.id}/one.txt`]: 'first',
    [`${one.id}.txt`]: 'first',
  })
  expect(Object.keys(await entriesOf(await asAdmin.documents.batchGet(ids)))).toEqual([
    `${long.id}/${name}`,
    `${one.id}/one.txt`,
    `${bobs.id}/bob.txt`,
  ])
  expect(Object.keys(await entriesOf(await asAda.documents.batchGet([one.id.toUpperCase()])))).toEqual([`${one.id}/one.txt`])
  await rm(app.files.describeLocation(await addressOf(app.db, one.sha256)))
  expect(await entriesOf(await asAda.documents.batchGet([one.id]))).toEqual({})
  await expect(asAda.documents.batchGet([])).rejects.toMatchObject({ code: 'VALIDATION_ERROR' })
  await expect(asAda.documents.batchGet(Array(501).fill(one.id))).rejects.toMatchObject({ code: 'VALIDATION_ERROR' })
})
