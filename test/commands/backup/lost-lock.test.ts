import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { createBackup } from '../../../src/backup/create/create-backup.ts'
import { fileRemovalLock } from '../../../src/db/lock.ts'
import type { Installation } from '../../../src/open-app.ts'
import { startApp, upload } from '../../support/app.ts'

test.each([['backup'], [fileRemovalLock]])('a backup that loses its lock %s does not become valid', async (lock) => {
  const { app, asAda } = await startApp({ 'ocr.enabled': false })
  await upload(asAda, 'a.txt', 'alpha')
  const calls: string[] = []
  const sink = {
    concurrency: 1,
    begin: async () => {},
    hasIntact: async () => false,
    async put(path: string) {
      if (path.startsWith('files/'))
        await sql`select pg_terminate_backend(pid) from pg_stat_activity
          where datname = current_database() and application_name like ${`dms ${lock} %`}`.execute(app.db)
      calls.push(path)
    },
    finish: async () => void calls.push('finish'),
    discard: async () => void calls.push('discard'),
  }
  const options = { withFiles: true, settings: null, withSecrets: false, lockTimeoutMs: 0, key: null, onProgress: () => {} }
  await expect(
    createBackup(app as unknown as Installation, sink, { ...options, signal: new AbortController().signal }),
  ).rejects.toMatchObject({ name: 'LockLost' })
  expect(calls).not.toContain('finish')
  expect(calls.at(-1)).toBe('discard')
})
