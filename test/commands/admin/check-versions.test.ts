/** The check `versions`: documents and their versions agree. */
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { check, type Finding } from '../../../src/check/check.ts'
import { startApp, upload } from '../../support/app.ts'

async function start() {
  const { app, asAda, runJobs } = await startApp()
  const find = async (repair = false): Promise<Finding[]> => {
    const found: Finding[] = []
    const signal = new AbortController().signal
    await check(app, { only: ['versions', 'references', 'orphans'], repair, sample: 1, signal, onProgress() {} }, (one) => found.push(one))
    return found
  }
  const add = async (text: string) => {
    const { id, sha256 } = await upload(asAda, 'note.txt', text)
    await runJobs()
    return { id, sha256 }
  }
  return { app, asAda, find, add }
}

test('a document whose current version is not recorded: --repair records it, and its file is no orphan', async () => {
  const { app, asAda, find, add } = await start()
  const { id } = await add('The harbour is closed')
  await sql`delete from document_versions where document_id = ${id}`.execute(app.db)
  const missing = expect.objectContaining({ check: 'versions', severity: 'error', document_id: id, version: 1, repaired: null })
  expect(await find()).toContainEqual(missing)
  expect(await find(true)).toContainEqual(expect.objectContaining({ document_id: id, repaired: 'recorded' }))
  expect(await find()).toEqual([])
  expect(await (await asAda.documents.download(id)).text()).toBe('The harbour is closed')
})

test('a document with another file than its current version, and with a number that would be given again', async () => {
  const { app, find, add } = await start()
  const [one, two] = [await add('The harbour is closed'), await add('The harbour is open')]
  await sql`update documents set sha256 = ${two.sha256}, size = 19 where id = ${one.id}`.execute(app.db)
  const about = { check: 'versions', severity: 'error', document_id: one.id, version: 1 }
  const fix = `dms documents restore ${one.id} --version 1`
  expect(await find(true)).toEqual([
    expect.objectContaining({ ...about, message: expect.stringContaining(fix), expected: one.sha256, actual: two.sha256, repaired: null }),
  ])
  await sql`update documents set sha256 = ${one.sha256}, size = 21 where id = ${one.id}`.execute(app.db)
  expect(await find()).toEqual([])

  await sql`
    insert into document_versions (document_id, number, sha256, size, mime_type, filename, origin, created_at)
    select document_id, 4, sha256, size, mime_type, filename, origin, created_at from document_versions where document_id = ${one.id}`.execute(
    app.db,
  )
  const found = await find(true)
  expect(found.map(({ severity, version, expected, actual, repaired }) => [severity, version, expected, actual, repaired])).toEqual([
    ['error', 4, 4, 1, null],
    ['error', 4, 4, 1, 'continues after it'],
    ['warning', 4, 0, 0, null],
  ])
  expect((await sql`select last_version from documents where id = ${one.id}`.execute(app.db)).rows).toEqual([{ last_version: 4 }])
})
