/** Generated secrets survive a power failure. */
import { type FileHandle, mkdtemp, open, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { createSecretWriter } from '../../src/backup/restore/file-writer.ts'
import { readOrCreateSecret, replaceSecretFile } from '../../src/config/secret-file.ts'

test('the name of a new, replaced or restored secret is flushed', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'dms-secret-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const { ino } = await stat(folder)
  const handle = await open(folder)
  const flushed: number[] = []
  const spy = vi.spyOn(Object.getPrototypeOf(handle) as FileHandle, 'sync').mockImplementation(async function (this: FileHandle) {
    flushed.push((await this.stat()).ino)
  })
  onTestFinished(async () => {
    spy.mockRestore()
    await handle.close()
  })
  const path = join(folder, 'sources_key')
  const writer = createSecretWriter(folder)
  writer.add('jwt_secret', Buffer.from('a secret of the backup'))
  for (const write of [() => readOrCreateSecret(path, 32), () => replaceSecretFile(path, 'another'), () => writer.write()]) {
    flushed.length = 0
    await write()
    expect(flushed.at(-1)).toBe(ino)
  }
})
