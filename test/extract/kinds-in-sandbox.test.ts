/** Readers with modules of WebAssembly, in a reader process with its permissions. */
import { expect, test } from 'vitest'
import { startApp, upload } from '../support/app.ts'
import { heicOf, scan, sevenZip } from '../support/data/files.ts'
import { zip } from '../support/data/office-files.ts'

test('archives and images of other formats are read; OCR reads an image in an archive', async () => {
  const { asAda, runJobs } = await startApp()
  const page = await scan(['Harbour fees'], { width: 620, height: 120 })
  const heic = await heicOf(page)
  const ids = await Promise.all(
    [
      ['a.7z', sevenZip],
      ['a.zip', zip({ 'note.txt': 'words in zip', 'scan.heic': heic })],
    ].map(async ([name, bytes]) => (await upload(asAda, name as string, bytes as Buffer)).id),
  )
  await runJobs()
  const [seven, zipped] = await Promise.all(ids.map((id) => asAda.documents.get(id)))
  expect(seven).toMatchObject({ status: 'completed', mime_type: 'application/x-7z-compressed', text_source: 'text_layer' })
  expect(seven?.content).toBe('sandboxed.txt\nwords in 7z')
  expect(zipped).toMatchObject({ status: 'completed', text_source: 'mixed', page_count: 2 })
  expect(zipped?.content).toMatch(/^note\.txt\nwords in zip\n\nscan\.heic\s+Harbour fees/)
})
