/** Failures of single files among many. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFile, mkdir, rm, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { readBatch, startCli } from '../../support/cli-transports.ts'
import { bareEnvironment, executable } from '../../support/processes/run.ts'
import { startProxy } from '../../support/servers/intercepting-proxy.ts'

const names = Array.from({ length: 11 }, (_, index) => `file-${String(index).padStart(2, '0')}.txt`)
const isUpload = (path: string): boolean => /upload$/.test(path)

test.each([
  ['grows', (path: string) => appendFile(path, ' and more')],
  ['shrinks', (path: string) => truncate(path, 2)],
] as const)('upload -r: 3 if one of several small files %s while it is sent; the others are uploaded', async (_, change) => {
  const { dms, folder, url, asAda } = await startCli('HTTP')
  for (const name of names) await writeFile(join(folder, name), `content of ${name}`)
  const changed = join(folder, names[3] as string)
  // The checksums of more than ten files are looked up after their sizes were read and before one is sent.
  const proxy = await startProxy(url, async (path) => {
    if (path.endsWith('/known')) await change(changed)
    return undefined
  })
  const { code, stdout } = await dms(['documents', 'upload', '-r', folder, '-o', 'jsonl'], { env: { DMS_URL: proxy } })
  const { items, summary } = readBatch(stdout)
  expect([code, summary]).toMatchObject([3, { created: 10, failed: 1, error: null }])
  const error = { code: expect.any(String), message: 'the file changed while it was sent' }
  expect(items.filter(({ action }) => action === 'failed')).toMatchObject([{ key: changed, error }])
  expect(await Array.fromAsync(asAda.documents.list())).toHaveLength(10)
})

test('upload -r: 130 if a request fails after SIGINT; the next run sends its files', async () => {
  const { dms, env, folder, url, asAda } = await startCli('HTTP')
  for (const name of names) await writeFile(join(folder, name), `content of ${name}`)
  const proxy = await startProxy(url, async (path) => {
    if (!isUpload(path)) return undefined
    child.kill('SIGINT')
    await sleep(200)
    return 400
  })
  const args = [executable, 'documents', 'upload', '-r', folder, '-o', 'jsonl']
  const child = spawn(process.execPath, args, {
    env: { ...bareEnvironment(), ...env, DMS_URL: proxy },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const [stdout, [code]] = await Promise.all([buffer(child.stdout), once(child, 'exit')])
  expect([code, readBatch(stdout.toString()).summary]).toMatchObject([130, { created: 0, error: null }])
  expect(await dms(['documents', 'upload', '-r', folder])).toMatchObject({ code: 0 })
  expect(await Array.fromAsync(asAda.documents.list())).toHaveLength(names.length)
})

test.each([
  ['together', []],
  ['one by one', ['--on-duplicate', 'upload']],
])('upload -r, files sent %s: a file that is always answered with 500 is one failed item', async (_, more) => {
  const { dms, folder, url } = await startCli('HTTP')
  for (const name of names) await writeFile(join(folder, name), `content of ${name}`)
  const proxy = await startProxy(url, async (path, body) => (isUpload(path) && body.includes(names[3] as string) ? 500 : undefined))
  const { code, stdout } = await dms(['documents', 'upload', '-r', folder, '-o', 'jsonl', ...more], { env: { DMS_URL: proxy } })
  const { items, summary } = readBatch(stdout)
  expect([code, summary]).toMatchObject([3, { created: 10, failed: 1, error: null }])
  expect(items.filter(({ action }) => action === 'failed').map(({ key }) => key)).toEqual([join(folder, names[3] as string)])
})

test('a run that waits for another one uploads what that one has left; --files-from locks its folders, and nothing moves into them', async () => {
  const { dms, folder, asAda } = await startCli('HTTP')
  const scans = join(folder, 'scans')
  await mkdir(scans)
  const texts = ['a', 'b', 'c']
  for (const text of texts) await writeFile(join(scans, `${text}.txt`), text)
  await writeFile(join(folder, 'list'), `${scans}\n`)
  const args = ['documents', 'upload', '-r', '--lock-timeout', '1m', '--limit-rate', '10B/s', '--json']
  const runs = [[scans], ['--files-from', join(folder, 'list')]].map((paths) => dms([...args, ...paths, '--after-upload', 'delete']))
  const summaries = (await Promise.all(runs)).map(({ code, stdout }) => ({ code, ...JSON.parse(stdout) }))
  expect(summaries.map(({ code, total }) => [code, total]).sort((one, other) => one[1] - other[1])).toEqual([
    [0, 0],
    [0, texts.length],
  ])
  expect(await Array.fromAsync(asAda.documents.list())).toHaveLength(texts.length)
  const move = ['--files-from', join(folder, 'list'), '--after-upload', `move:${join(scans, 'done')}`]
  expect(await dms([...args, ...move])).toMatchObject({ code: 2, stderr: expect.stringContaining('would be uploaded again') })
})

test('--after-upload move: 3 for a file that cannot be moved, with the id of its document; the others are moved', async () => {
  const { dms, folder, asAda } = await startCli('HTTP')
  const path = join(folder, 'in', 'sub', 'a.txt')
  await mkdir(join(folder, 'in', 'sub'), { recursive: true })
  await mkdir(join(folder, 'done'))
  for (const file of [path, join(folder, 'in', 'b.txt')]) await writeFile(file, file)
  await writeFile(join(folder, 'done', 'sub'), 'a file in place of the folder')
  const args = ['documents', 'upload', '-r', join(folder, 'in'), '--after-upload', `move:${join(folder, 'done')}`, '-o', 'jsonl']
  const { code, stdout } = await dms(args)
  const { items, summary } = readBatch(stdout)
  expect([code, summary]).toMatchObject([3, { created: 1, failed: 1 }])
  const stored = (await Array.fromAsync(asAda.documents.list())).find(({ filename }) => filename === 'a.txt')
  expect(items.find(({ key }) => key === path)).toMatchObject({
    error: { code: 'EEXIST', message: expect.stringMatching(`^uploaded as ${stored?.id}, but the file could not be deleted or moved: `) },
  })
})

test('--after-upload delete: 0 if somebody else has deleted the file meanwhile; move fails, because nothing is moved', async () => {
  const { dms, folder, url } = await startCli('HTTP')
  const path = join(folder, 'scan.txt')
  const proxy = await startProxy(url, async (route) => {
    if (isUpload(route)) await rm(path)
    return undefined
  })
  const upload = async (action: string) => {
    await writeFile(path, action)
    const { code, stdout } = await dms(['documents', 'upload', path, '--after-upload', action, '--json'], { env: { DMS_URL: proxy } })
    return [code, JSON.parse(stdout)]
  }
  expect(await upload('delete')).toMatchObject([0, { created: 1, failed: 0 }])
  expect(await upload(`move:${join(folder, 'done')}`)).toMatchObject([1, { failed: 1, items: [{ error: { code: 'ENOENT' } }] }])
})

test('a file that is given twice is uploaded and deleted once; -n reports an empty file as the upload does', async () => {
  const { dms, folder, asAda } = await startCli('HTTP')
  const [scans, scan, empty] = [join(folder, 'scans'), join(folder, 'scans', 'a.txt'), join(folder, 'empty.txt')]
  await mkdir(scans)
  await writeFile(scan, 'a')
  const { code, stdout } = await dms([
    'documents',
    'upload',
    '-r',
    scans,
    scan,
    '--after-upload',
    'delete',
    '-o',
    'csv',
    '--fields',
    'action',
  ])
  expect([code, stdout]).toEqual([0, 'ACTION\ncreated\n'])
  expect(await Array.fromAsync(asAda.documents.list())).toHaveLength(1)
  await writeFile(empty, '')
  for (const [flags, note] of [
    [[], ''],
    [['-n'], 'dry run: nothing was changed\n'],
  ] as const)
    expect(await dms(['documents', 'upload', empty, ...flags])).toMatchObject({ code: 2, stderr: `${empty}: the file is empty\n${note}` })
})

test('watch: goes on after an answer of 500; after many uploads it warns of no listeners, and SIGUSR1 prints nothing', async () => {
  const { folder, env, url } = await startCli('HTTP')
  const watched = join(folder, 'in')
  await mkdir(watched)
  for (const name of ['bad.txt', 'good.txt']) await writeFile(join(watched, name), name)
  const proxy = await startProxy(url, async (path, body) => (isUpload(path) && body.includes('bad.txt') ? 500 : undefined))
  const args = ['documents', 'watch', watched, '--settle', '0s', '-q', '-o', 'jsonl']
  const child = spawn(process.execPath, [executable, ...args], {
    env: { ...bareEnvironment(env), DMS_URL: proxy },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  const ended = once(child, 'close')
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  const arrived = (name: string) => expect.poll(() => stdout).toContain(`${name}"`)
  await arrived('good.txt')
  for (const name of names) {
    await writeFile(join(watched, name), name)
    await arrived(name)
  }
  child.kill('SIGUSR1')
  await writeFile(join(watched, 'last.txt'), 'last')
  await arrived('last.txt')
  child.kill('SIGTERM')
  expect(await ended).toEqual([3, null])
  expect(readBatch(stdout).summary).toMatchObject({ created: 13, failed: 1, exit_code: 3 })
  expect(stderr).toBe('')
})
