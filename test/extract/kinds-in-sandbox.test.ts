/** Readers with modules of WebAssembly, in a reader process with its permissions. */
import { expect, test } from 'vitest'
import { startApp, upload } from '../support/app.ts'
import { image, scan } from '../support/data/files.ts'
import { zip } from '../support/data/office-files.ts'

/** A 7z archive of one text, `sandboxed.txt` with `words in 7z`. */
const sevenZip = Buffer.from(
  'N3q8ryccAARbbssPcgAAAAAAAAAUAAAAAAAAADv7Z3IBAAp3b3JkcyBpbiA3egDgAGAAW10AAIEzB64Pzt0HYQkKkA9ecbngKbVkHbyg6zM5WwbwXO+8x9wZo/JrBa7qKwEjolEZ0DqP3VHCAbl70MfpHMpmKPr0/qexOz3q20h/DBR+LKMjSEt8o6ejiwAAAAAXBg8BCWMABwsBAAEhIQEYDGEAAA==',
  'base64',
)

test('archives and images of other formats are read; OCR reads an image in an archive', async () => {
  const { asAda, runJobs } = await startApp()
  const page = await scan(['Harbour fees'], { width: 620, height: 120 })
  const heic = Buffer.from(
    (await image(page).avif({ quality: 90 }).toBuffer()).toString('latin1').replace('ftypavif', 'ftypheic'),
    'latin1',
  )
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
