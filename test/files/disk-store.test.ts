import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { openDisk } from '../../src/files/stores/disk.ts'
import { testStore } from '../support/store-suite.ts'

testStore(async () => {
  const path = await mkdtemp(join(tmpdir(), 'dms-disk-'))
  onTestFinished(() => rm(path, { recursive: true, force: true }))
  return openDisk({ path, tmp_path: '', min_free: 0, fsync: false })
})
