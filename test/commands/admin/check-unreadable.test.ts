/** A stored file that fails while it is read may be intact: it is reported, and never repaired. */
import { Readable } from 'node:stream'
import { expect, test, vi } from 'vitest'
import { check, type Finding } from '../../../src/check/check.ts'
import { startApp, upload } from '../../support/app.ts'

test('a stored file that fails in the middle of its read is an error of checksums, without a repair', async () => {
  const { app, asAda } = await startApp()
  const { id } = await upload(asAda, 'note.txt', 'The harbour is closed')
  const failure = Object.assign(new Error('EIO: i/o error, read'), { code: 'EIO', syscall: 'read' })
  vi.spyOn(app.files, 'read').mockImplementation(async () =>
    Readable.from(
      (async function* () {
        yield Buffer.from('The har')
        throw failure
      })(),
    ),
  )
  const findings: Finding[] = []
  const { signal } = new AbortController()
  await check(app, { only: ['checksums'], repair: true, sample: 1, signal, onProgress() {} }, (finding) => findings.push(finding))
  expect(findings).toMatchObject([
    {
      check: 'checksums',
      severity: 'error',
      document_id: id,
      message: 'the stored file cannot be read: EIO: i/o error, read',
      repaired: null,
    },
  ])
})
