/** Folders of the server behave like every type of source. */
import { mkdir, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { folder } from '../../src/sources/folder/folder.ts'
import { makeFolder } from '../support/data/source-folder.ts'
import { testSourceType } from '../support/source-suite.ts'

testSourceType(async () => {
  const { root, put } = await makeFolder()
  return {
    type: folder,
    address: { url: `${root}/`, username: null, password: null, recursive: true },
    limits: {
      concurrency: 4,
      timeoutMs: 10_000,
      maxFileBytes: 10_000_000,
      minBytesPerSecond: 0,
      allowPrivateNetworks: false,
      localRoots: [root],
      caFile: '',
    },
    put,
    makeFolder: async (path) => void (await mkdir(join(root, path), { recursive: true })),
    move: async (from, to) => {
      await mkdir(dirname(join(root, to)), { recursive: true })
      await rename(join(root, from), join(root, to))
    },
    remove: (path) => rm(join(root, path)),
  }
})
