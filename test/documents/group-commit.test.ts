import { Readable } from 'node:stream'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { storeDocument } from '../../src/documents/store-document.ts'
import { openGroupCommit } from '../../src/documents/uploads/group-commit.ts'
import { startApp } from '../support/app.ts'
import { storeFiles } from '../support/servers/server.ts'

const file = (filename: string, content = filename) => ({ filename, size: null, open: () => [Buffer.from(content)] })

test('concurrent uploads share transactions; each has its own answer, also beside refused ones and equal bytes', async () => {
  const { app, asAda, dataDir } = await startApp()
  const { upload } = asAda.documents
  const { id: existing } = await upload(file('existing'))
  const codeOf = (error: { code: string }) => error.code
  const [created, equal, returned, refused] = await Promise.all([
    Promise.all(Array.from({ length: 20 }, (_, index) => upload(file(`new ${index}`), { metadata: { index } }))),
    Promise.all([upload(file('one', 'equal')), upload(file('other', 'equal'))]),
    upload(file('existing'), { on_duplicate: 'return' }),
    Promise.all([
      upload(file('existing'), { on_duplicate: 'reject' }).catch(codeOf),
      upload(file('empty', '')).catch(codeOf),
      upload(file('labelled'), { labels: 'no such label' }).catch(codeOf),
    ]),
  ])
  expect(refused).toEqual(['DUPLICATE_RESOURCE', 'VALIDATION_ERROR', 'VALIDATION_ERROR'])
  expect([returned.created, returned.id]).toEqual([false, existing])
  for (const [index, { created: isNew, document }] of created.entries())
    expect([isNew, document.title, document.metadata, document.status]).toEqual([true, `new ${index}`, { index }, 'pending'])
  const first = equal.find(({ document }) => document.duplicate_of === null)
  expect(equal.find((one) => one !== first)?.document.duplicate_of).toBe(first?.id)
  const { rows } = await sql<{ count: number }>`select count(distinct xmin::text) from documents`.execute(app.db)
  expect(rows[0]?.count).toBeLessThan(15)
  const { named, staged } = await storeFiles(dataDir)
  expect([named.length, staged]).toEqual([22, []])
})

test('an upload whose bytes are still on their way does not hold up others, and is stored in the end', async () => {
  const { asAda } = await startApp()
  const { upload } = asAda.documents
  const begun = Promise.withResolvers<void>()
  const others = Promise.withResolvers<void>()
  async function* slowly() {
    yield Buffer.from('the first bytes')
    begun.resolve()
    await others.promise
    yield Buffer.from(' and the last')
  }
  const slow = upload({ filename: 'slow', size: null, open: slowly })
  await begun.promise
  for (const name of ['one', 'two', 'three']) expect((await upload(file(name))).created).toBe(true)
  others.resolve()
  expect((await slow).created).toBe(true)
})

test('a group is rolled back and its uploads are stored alone: a file that no row refers to stays uncommitted', async () => {
  const { app, ada } = await startApp()
  const { store } = openGroupCommit(app)
  const options = { filename: 'a.txt', language: 'eng', ocr: false, onDuplicate: 'allow', createdBy: ada.id } as const
  const stage = (content: string) => app.files.stage(Readable.from([Buffer.from(content)]), 100)
  const [one, equal, other] = await Promise.all([stage('equal'), stage('equal'), stage('other')])
  const group = [one, equal, other].map((staged) => ({ ...options, ownerId: ada.id, staged }))
  const labelIds = ['01900000-0000-7000-8000-000000000000']
  expect(await Promise.all(group.map((upload) => store(upload.staged === other ? { ...upload, labelIds } : upload)))).toEqual([
    null,
    null,
    null,
  ])
  // The equal bytes of the other upload are stored first.
  for (const staged of [equal, one, other]) {
    await app.db.transaction().execute((trx) => storeDocument(app, trx, ada.id, staged, options))
    await staged.confirm()
  }
  for (const staged of [one, equal, other]) await staged.discard()
  expect((await app.files.listUncommitted()).map(({ address }) => address)).toContain(one.address)
})

test('bulk-upload with an Idempotency-Key: equal bytes within one request are one file and two documents', async () => {
  const { asAda, dataDir } = await startApp()
  const files = [file('a.txt', 'same'), file('b.txt'), file('c.txt', 'same'), file('d.txt', '')]
  const first = await asAda.documents.bulkUpload(files, { idempotencyKey: 'key' })
  expect(first.documents.map(({ filename, status }) => [filename, status])).toEqual([
    ['a.txt', 'uploaded'],
    ['b.txt', 'uploaded'],
    ['c.txt', 'uploaded'],
    ['d.txt', 'failed'],
  ])
  const [a, , c] = first.documents as { id: string }[]
  expect((await asAda.documents.get(c?.id ?? '')).duplicate_of).toBe(a?.id)
  expect(await asAda.documents.bulkUpload(files, { idempotencyKey: 'key' })).toEqual(first)
  expect((await storeFiles(dataDir)).named).toHaveLength(2)
})
