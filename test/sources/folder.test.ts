/** Folders of the server behave like every type of source. */
import { mkdir, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import type { SourceEntry } from '../../src/ports/source-type.ts'
import { folder } from '../../src/sources/folder/folder.ts'
import { makeFolder } from '../support/data/source-folder.ts'
import { testSourceType } from '../support/source-suite.ts'

const addressOf = (root: string) => ({ url: `${root}/`, username: null, password: null, recursive: true })
const limitsOf = (root: string) => ({
  concurrency: 4,
  timeoutMs: 10_000,
  maxFileBytes: 10_000_000,
  minBytesPerSecond: 0,
  allowPrivateNetworks: false,
  localRoots: [root],
  caFile: '',
})

testSourceType(async () => {
  const { root, put } = await makeFolder()
  return {
    type: folder,
    address: addressOf(root),
    limits: limitsOf(root),
    put,
    makeFolder: async (path) => void (await mkdir(join(root, path), { recursive: true })),
    move: async (from, to) => {
      await mkdir(dirname(join(root, to)), { recursive: true })
      await rename(join(root, from), join(root, to))
    },
    remove: (path) => rm(join(root, path)),
  }
})

test('SOURCE_UNREACHABLE for a folder that another one replaces while it is listed, as after an unmount: its other files are not gone', async () => {
  const { root, put } = await makeFolder()
  for (let nth = 0; nth < 300; nth++) await put(`in/${nth}.txt`, 'x')
  const entries: SourceEntry[] = []
  for await (const entry of folder
    .open(addressOf(root), limitsOf(root))
    .walk({ loadTag: async () => null, signal: new AbortController().signal })) {
    if (entry.kind === 'file' && !entries.some(({ kind }) => kind === 'file')) {
      await rename(join(root, 'in'), join(root, 'away'))
      await mkdir(join(root, 'in'))
    }
    entries.push(entry)
  }
  expect(entries.filter(({ kind }) => kind === 'file').length).toBeLessThan(300)
  expect(entries.filter(({ kind }) => kind === 'problem')).toMatchObject([{ path: 'in', code: 'SOURCE_UNREACHABLE' }])
})
