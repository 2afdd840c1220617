/** A check while the server is busy: files that are replaced or purged meanwhile are no findings. */
import { utimes } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { type CheckName, check, type Finding } from '../../../src/check/check.ts'
import { addressOf } from '../../../src/documents/stored-files.ts'
import { startApp, upload } from '../../support/app.ts'

/** Starts an archive with a document, and a check that calls `meanwhile` before it looks at its file for the first time. */
async function start(only: CheckName, meanwhile: 'size' | 'list') {
  const started = await startApp()
  const { id, sha256 } = await upload(started.asAda, 'note.txt', 'The harbour is closed')
  const address = await addressOf(started.app.db, sha256)
  await utimes(started.app.files.describeLocation(address), new Date(0), new Date(0))
  const find = async (work: () => Promise<unknown>): Promise<Finding[]> => {
    const { files } = started.app
    let isDone = false
    const once = async () => {
      if (isDone) return
      isDone = true
      await work()
      await started.runJobs(['maintenance'])
    }
    const busy: typeof files = {
      ...files,
      async size(wanted) {
        if (meanwhile === 'size') await once()
        return files.size(wanted)
      },
      async *list(onUnreadable) {
        yield* await Array.fromAsync(files.list(onUnreadable))
        if (meanwhile === 'list') await once()
      },
    }
    const findings: Finding[] = []
    const options = { only: [only], repair: true, sample: 1, signal: new AbortController().signal, onProgress() {} }
    await check({ ...started.app, files: busy }, options, (finding) => findings.push(finding))
    return findings
  }
  return { ...started, id, address, find }
}

test('no finding for a file that an upload of the same bytes replaces during the check', async () => {
  const { app, asBob, address, find } = await start('files', 'size')
  expect(await find(() => upload(asBob, 'same.txt', 'The harbour is closed'))).toEqual([])
  expect(await app.files.size(address)).toBeNull()
})

test('no finding for a file that is purged after the check has listed it', async () => {
  const { app, asAda, id, address, find } = await start('orphans', 'list')
  expect(await find(() => asAda.documents.delete(id, { permanent: true }))).toEqual([])
  expect(await app.files.size(address)).toBeNull()
})
