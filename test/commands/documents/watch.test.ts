import { mkdirSync, renameSync, rmdirSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm, symlink, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import type { BatchItem } from '../../../src/cli/output/batch-output.ts'
import type { Cli } from '../../../src/cli/runtime/context.ts'
import { findFiles } from '../../../src/cli/upload/find-files.ts'
import { parseUploadFlags, type UploadFlags } from '../../../src/cli/upload/flags.ts'
import { uploadFiles } from '../../../src/cli/upload/upload.ts'
import { watchFolder } from '../../../src/cli/upload/watch-folder.ts'
import { type Client, createClient } from '../../../src/client/client.ts'
import { localTransport } from '../../../src/client/local.ts'
import { startApp } from '../../support/app.ts'

const flags: UploadFlags = {
  include: [],
  exclude: [],
  label: [],
  ocr: false,
  metadata: [],
  onDuplicate: 'upload',
  afterUpload: 'keep',
  minAge: '0s',
  concurrency: '1',
  lockTimeout: '0s',
}

/** Returns the part of a command that uploads need. */
const commandOf = (signal: AbortSignal, url: string | null = null, warn = (_: string): void => {}): Cli =>
  ({ options: {}, target: { url }, signal, progress: () => ({ update() {}, done() {} }), warn }) as unknown as Cli

/** Watches a folder until the signal. `onItem` receives each row of the result, `onScan` is called before each search for files. */
const watchUntil = (
  signal: AbortSignal,
  client: Client,
  {
    folder,
    pollMs,
    onItem,
    onScan,
    onDuplicate = 'upload',
  }: { folder: string; pollMs: number | null; onItem: (item: BatchItem) => void; onScan: () => void; onDuplicate?: 'skip' | 'upload' },
): Promise<void> =>
  watchFolder(commandOf(signal), client, {
    ...{ folder, settleMs: 0, pollMs, retryMs: 50, signal },
    find: {
      isRecursive: true,
      shouldFollowLinks: true,
      exclude: [],
      get include() {
        onScan()
        return []
      },
    },
    upload: { ...parseUploadFlags('documents watch', { ...flags, onDuplicate }), cache: null, batch: { add: onItem, finish() {} } },
  })

test('an unreadable entry is reported once, and files beside it are uploaded', async () => {
  const { app, ada } = await startApp()
  const folder = await mkdtemp(join(tmpdir(), 'dms-watch-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  await symlink(join(folder, 'nowhere'), join(folder, 'a.txt'))
  await writeFile(join(folder, 'b.txt'), 'b')
  const stop = new AbortController()
  const items: BatchItem[] = []
  let [scanCount, remaining] = [0, 4]
  await watchUntil(stop.signal, createClient(localTransport(app, ada.actor)), {
    ...{ folder, pollMs: 300, onItem: (item) => void items.push(item) },
    onScan() {
      scanCount++
      // The later scans report nothing.
      if ((items.length > 1 && --remaining === 0) || scanCount > 50) stop.abort()
    },
  })
  expect(items.map(({ action, key }) => [action, key])).toEqual([
    ['failed', join(folder, 'a.txt')],
    ['created', join(folder, 'b.txt')],
  ])
  expect(scanCount).toBeLessThan(15)
})

test('--on-duplicate upload: a file whose upload was stored and answered with 503 is stored once, as are the files before it', async () => {
  const { app, ada } = await startApp()
  const folder = await mkdtemp(join(tmpdir(), 'dms-watch-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const before = new Date(Date.now() - 60_000)
  for (const name of ['a.txt', 'b.txt', 'c.txt']) {
    await writeFile(join(folder, name), name)
    await utimes(join(folder, name), before, before)
  }
  const transport = localTransport(app, ada.actor)
  let requestCount = 0
  const client = createClient(async (request) => {
    const response = await transport(request)
    return ++requestCount === 2 ? new Response('', { status: 503 }) : response
  })
  const stop = new AbortController()
  const items: BatchItem[] = []
  const batch = {
    add(item: BatchItem) {
      items.push(item)
      if (items.length === 3) stop.abort()
    },
    finish() {},
  }
  const warnings: string[] = []
  const cli = commandOf(stop.signal, null, (text) => void warnings.push(text))
  await watchFolder(cli, client, {
    folder,
    find: { isRecursive: true, shouldFollowLinks: false, include: [], exclude: [] },
    settleMs: 0,
    pollMs: 50,
    retryMs: 50,
    upload: { ...parseUploadFlags('documents watch', flags), cache: null, batch },
    signal: stop.signal,
  })
  expect(warnings).toHaveLength(1)
  expect(items.map(({ action, key }) => [action, key])).toEqual(['a', 'b', 'c'].map((name) => ['created', join(folder, `${name}.txt`)]))
  const stored = await app.db.selectFrom('documents').select('id').execute()
  expect(stored.map(({ id }) => id).sort()).toEqual(items.map(({ id }) => id).sort())
})

test('--on-duplicate upload: files are stored once, although the folder is empty for a time, as an unmounted one is', async () => {
  const { app, ada } = await startApp()
  const top = await mkdtemp(join(tmpdir(), 'dms-watch-'))
  onTestFinished(() => rm(top, { recursive: true, force: true }))
  const [folder, aside] = [join(top, 'scans'), join(top, 'aside')]
  await mkdir(folder)
  await writeFile(join(folder, 'a.txt'), 'a')
  const stop = new AbortController()
  const items: BatchItem[] = []
  const scans = [
    () => {
      renameSync(folder, aside)
      mkdirSync(folder)
    },
    () => {},
    () => {
      rmdirSync(folder)
      renameSync(aside, folder)
    },
    () => writeFileSync(join(folder, 'b.txt'), 'b'),
    () => {},
    () => stop.abort(),
  ]
  await watchUntil(stop.signal, createClient(localTransport(app, ada.actor)), {
    ...{ folder, pollMs: 50, onItem: (item) => void items.push(item) },
    onScan() {
      if (items.length > 0) scans.shift()?.()
    },
  })
  expect(items.map(({ action, key }) => [action, key])).toEqual(['a.txt', 'b.txt'].map((name) => ['created', join(folder, name)]))
})

test('--on-duplicate skip: a file that replaces another of its size and modification time is uploaded', async () => {
  const { app, ada } = await startApp()
  const top = await mkdtemp(join(tmpdir(), 'dms-watch-'))
  onTestFinished(() => rm(top, { recursive: true, force: true }))
  const folder = join(top, 'scans')
  await mkdir(folder)
  const time = new Date('2026-01-01')
  for (const [path, text] of [
    [join(folder, 'a.txt'), 'one'],
    [join(top, 'new'), 'two'],
  ] as const) {
    await writeFile(path, text)
    await utimes(path, time, time)
  }
  const stop = new AbortController()
  const items: BatchItem[] = []
  await watchUntil(stop.signal, createClient(localTransport(app, ada.actor)), {
    ...{ folder, pollMs: 50, onDuplicate: 'skip' },
    onItem(item) {
      if (items.push(item) === 1) renameSync(join(top, 'new'), join(folder, 'a.txt'))
      else stop.abort()
    },
    onScan() {},
  })
  expect(items.map(({ action }) => action)).toEqual(['created', 'created'])
})

test('without --poll: a file is uploaded within seconds, although another folder has taken the place of the watched one', async () => {
  const { app, ada } = await startApp()
  const top = await mkdtemp(join(tmpdir(), 'dms-watch-'))
  onTestFinished(() => rm(top, { recursive: true, force: true }))
  const folder = join(top, 'scans')
  await mkdir(folder)
  await writeFile(join(folder, 'a.txt'), 'a')
  const stop = new AbortController()
  const items: BatchItem[] = []
  const replace = () => {
    renameSync(folder, join(top, 'aside'))
    mkdirSync(folder)
    // Later than the scan that the renaming causes.
    setTimeout(() => writeFileSync(join(folder, 'b.txt'), 'b'), 3000)
  }
  const limit = setTimeout(() => stop.abort(), 60_000)
  await watchUntil(stop.signal, createClient(localTransport(app, ada.actor)), {
    ...{ folder, pollMs: null, onScan() {} },
    onItem(item) {
      items.push(item)
      if (items.length === 1) setTimeout(replace, 500)
      else stop.abort()
    },
  })
  clearTimeout(limit)
  expect(items.map(({ key }) => key)).toEqual(['a.txt', 'b.txt'].map((name) => join(folder, name)))
})

test.each(['', 'inner', 'a.txt'])('--on-duplicate upload: files are stored once, although a scan cannot read "%s"', async (name) => {
  const { app, ada } = await startApp()
  const top = await mkdtemp(join(tmpdir(), 'dms-watch-'))
  onTestFinished(() => rm(top, { recursive: true, force: true }))
  const [folder, aside] = [join(top, 'scans'), join(top, 'aside')]
  const paths = [join(folder, 'a.txt'), join(folder, 'inner', 'b.txt')]
  await mkdir(join(folder, 'inner'), { recursive: true })
  for (const path of paths) await writeFile(path, path)
  const unreadable = join(folder, name)
  const stop = new AbortController()
  const items: BatchItem[] = []
  const isStored = () => items.length >= paths.length
  const scans = [
    () => {},
    () => {
      renameSync(unreadable, aside)
      symlinkSync(join(top, 'nowhere'), unreadable)
    },
    () => {},
    () => {
      unlinkSync(unreadable)
      renameSync(aside, unreadable)
    },
    () => {},
    () => stop.abort(),
  ]
  await watchUntil(stop.signal, createClient(localTransport(app, ada.actor)), {
    ...{ folder, pollMs: 50, onItem: (item) => void items.push(item) },
    onScan() {
      if (isStored()) scans.shift()?.()
    },
  })
  expect(items.map(({ action, key }) => [action, key])).toEqual([...paths.map((path) => ['created', path]), ['failed', unreadable]])
  expect(await app.db.selectFrom('documents').select('id').execute()).toHaveLength(paths.length)
})

test.each([
  ['is answered with 500', () => new Response('', { status: 500 })],
  [
    'has another length than its files had',
    () => Promise.reject(Object.assign(new TypeError('mismatch'), { code: 'UND_ERR_REQ_CONTENT_LENGTH_MISMATCH' })),
  ],
])('files go on after a request for several of them that %s', async (_, fail) => {
  const { app, ada } = await startApp()
  const folder = await mkdtemp(join(tmpdir(), 'dms-watch-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  for (const name of ['a.txt', 'b.txt', 'c.txt']) await writeFile(join(folder, name), name)
  const transport = localTransport(app, ada.actor)
  let isFirst = true
  const client = createClient(async (request) => {
    if (!isFirst || request.method !== 'POST') return transport(request)
    isFirst = false
    return fail()
  })
  const items: BatchItem[] = []
  const cli = commandOf(new AbortController().signal, 'http://127.0.0.1')
  const upload = { ...parseUploadFlags('documents upload', { ...flags, onDuplicate: 'skip' }), cache: null }
  const files = await findFiles([folder], { isRecursive: true, shouldFollowLinks: false, include: [], exclude: [] })
  await uploadFiles(cli, client, files, { ...upload, batch: { add: (item) => void items.push(item), finish() {} } })
  expect(isFirst).toBe(false)
  expect(items.map(({ action, key }) => [action, key])).toEqual(['a', 'b', 'c'].map((name) => ['created', join(folder, `${name}.txt`)]))
})
