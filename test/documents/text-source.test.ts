/** The source of a document's text, and documents without text. */
import { expect, test } from 'vitest'
import { ReadFailure } from '../../src/ports/document-reader.ts'
import { startWorker } from '../../src/worker/worker.ts'
import { upload } from '../support/app.ts'
import { startCli } from '../support/cli-transports.ts'
import { always, fakeReader } from '../support/fake-reader.ts'

const binary = Buffer.from('00010203fffe9988', 'hex')

test('text_source of each kind; --no-text and ?text_source= list documents without text; failed ones keep theirs', async () => {
  const started = await startCli('HTTP')
  const { app, asAda, dms } = started
  const readWith = async (reader: ReturnType<typeof fakeReader> | typeof app.reader): Promise<void> => {
    const worker = await startWorker({ ...app, reader }, { queues: ['ocr'], concurrency: 1, name: 'here/1' })
    await worker.idle()
    await worker.stop(60_000)
  }
  const sourceOf = async (id: string) => {
    const { status, text_source, error, content } = await asAda.documents.get(id)
    return { status, text_source, error, content }
  }
  const text = await upload(asAda, 'a.txt', 'words')
  const spaces = await upload(asAda, 'b.txt', ' \n ')
  const unknown = await upload(asAda, 'c.bin', binary)
  expect((await asAda.documents.get(text.id)).text_source).toBe(null)
  await readWith(app.reader)
  expect(await sourceOf(text.id)).toMatchObject({ status: 'completed', text_source: 'text_layer' })
  expect(await sourceOf(spaces.id)).toMatchObject({ status: 'completed', text_source: 'empty' })
  expect(await sourceOf(unknown.id)).toEqual({ status: 'completed', text_source: 'none', error: null, content: '' })

  const [scan, blank, mixed] = [
    await upload(asAda, 'scan.pdf', 'one'),
    await upload(asAda, 'blank.pdf', 'two'),
    await upload(asAda, 'mixed.pdf', 'three'),
  ]
  const pages = fakeReader(2)
  const outline = async (file: { filename: string }) => {
    const { pages: both, ...rest } = await fakeReader(2).outline({ path: '', filename: '', mimeType: '' })
    const [first, ...others] = both
    return file.filename === 'mixed.pdf' && first
      ? { ...rest, pages: [{ ...first, text: 'typed', needsOcr: false }, ...others] }
      : { ...rest, pages: both }
  }
  const page: typeof pages.page = async (file, number, language, options) => {
    const read = await pages.page(file, number, language, options)
    return file.filename === 'blank.pdf' ? { ...read, text: ' ' } : read
  }
  await readWith({ ...pages, outline, page })
  expect(await Promise.all([scan, blank, mixed].map(async ({ id }) => (await sourceOf(id)).text_source))).toEqual(['ocr', 'empty', 'mixed'])

  const listed = await dms([
    'documents',
    'list',
    '--no-text',
    '--sort',
    'filename',
    '--order',
    'asc',
    '-o',
    'csv',
    '--fields',
    'filename,text_source',
  ])
  expect(listed.stdout).toBe('FILENAME,TEXT_SOURCE\nb.txt,empty\nblank.pdf,empty\nc.bin,none\n')
  const { data } = await asAda.documents.page({ text_source: 'none' })
  expect(data.map(({ id }) => id)).toEqual([unknown.id])
  expect((await asAda.send('GET', '/api/documents?text_source=lost')).status).toBe(400)

  const answer = await fetch(`${started.url}/metrics`)
  expect(await answer.text()).toContain('dms_documents_by_text_source{text_source="none"} 1\n')

  await Promise.all([scan, unknown].map(({ id }) => asAda.documents.retryOcr(id)))
  const damaged = always(new ReadFailure('FILE_CORRUPT'))
  await readWith({ ...pages, outline: async (file) => (file.filename === 'scan.pdf' ? damaged() : outline(file)) })
  expect(await sourceOf(scan.id)).toMatchObject({
    status: 'failed',
    text_source: 'ocr',
    content: expect.stringContaining('text of page 1'),
  })
  expect(await sourceOf(unknown.id)).toMatchObject({ status: 'completed', text_source: 'ocr' })
})
