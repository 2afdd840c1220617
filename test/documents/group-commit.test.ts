import { sql } from 'kysely'
import { expect, test } from 'vitest'
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
