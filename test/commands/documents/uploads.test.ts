import { spawn } from 'node:child_process'
import {
  appendFile,
  chmod,
  link,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  truncate,
  utimes,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { createThrottle } from '../../../src/cli/arguments/throttle.ts'
import { assertMovesOut, parseAfterUpload } from '../../../src/cli/upload/after-upload.ts'
import { type FoundFile, findFiles, unknownStats } from '../../../src/cli/upload/find-files.ts'
import { planRequests } from '../../../src/cli/upload/plan-requests.ts'
import { openUploadCache, uploadCachePath } from '../../../src/cli/upload/upload-cache.ts'
import { addressOf } from '../../../src/documents/stored-files.ts'
import { readBatch, startCli } from '../../support/cli-transports.ts'
import { otherFileSystem } from '../../support/places.ts'
import { bareEnvironment, executable } from '../../support/processes/run.ts'
import { runHere } from '../../support/processes/run-here.ts'
import { startServer, tokenFor } from '../../support/servers/server.ts'

const all = { isRecursive: true, shouldFollowLinks: false, include: [], exclude: [] }

async function emptyFolder(below = tmpdir()): Promise<string> {
  const folder = await mkdtemp(join(below, 'dms-uploads-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}

const file = (name: string, size: number): FoundFile => ({ ...unknownStats, path: name, relativePath: name, size })
const mebibyte = 1 << 20

test('small files share requests of at most ten files and 90 MiB; large, empty and unknown ones go alone, in order', () => {
  const small = Array.from({ length: 23 }, (_, index) => file(`s${index}`, 1000))
  const sizes = (files: FoundFile[], { isShared = true } = {}) => [...planRequests(files, { isShared })].map(({ files }) => files.length)
  expect(sizes(small)).toEqual([10, 10, 3])
  expect(sizes(small, { isShared: false })).toEqual(Array(23).fill(1))
  const mixed = [file('a', 1), file('large', 9 * mebibyte), file('b', 1), file('empty', 0), { ...file('-', 0), size: null }]
  expect([...planRequests(mixed, { isShared: true })].map(({ files }) => files.map(({ path }) => path))).toEqual([
    ['a', 'b'],
    ['large'],
    ['empty'],
    ['-'],
  ])
  expect(sizes(Array.from({ length: 13 }, (_, index) => file(`m${index}`, 8 * mebibyte - 1)))).toEqual([10, 3])
  const many = Array.from({ length: 250 }, (_, index) => file(`w${index}`, 1))
  const windows = new Set([...planRequests(many, { isShared: true })].map(({ window }) => window))
  // Nothing of the second window is there before the first has been sent.
  const [first] = planRequests(
    (function* () {
      yield* many.slice(0, 101)
      throw new Error('read too far')
    })(),
    { isShared: true },
  )
  expect(first?.window.files).toHaveLength(100)
  expect([...windows].map(({ files }) => files.length)).toEqual([100, 100, 50])
})

test('a name that is not valid UTF-8 is an error of its file; the others are found', async () => {
  const folder = await emptyFolder()
  await writeFile(join(folder, 'a.txt'), 'a')
  const name = Buffer.concat([Buffer.from(join(folder, 'b')), Buffer.from([0xff])])
  await writeFile(name, 'b')
  // The name that the other would have after decoding.
  await writeFile(join(folder, 'b\ufffd'), 'c')
  const found = await findFiles([folder], all)
  expect(found.map(({ relativePath, error }) => `${relativePath} ${error?.message}`).sort()).toEqual([
    'a.txt undefined',
    'b\ufffd the name is not valid UTF-8: rename the file',
    'b\ufffd undefined',
  ])
})

test('the upload cache has the hash of a file until its size or time changes; it survives a partial line and a read-only folder', async () => {
  const folder = await emptyFolder()
  const path = join(folder, 'deep', 'journal.jsonl')
  await writeFile(join(folder, 'a.txt'), 'a')
  const [found] = (await findFiles([join(folder, 'a.txt')], all)) as [FoundFile]
  const refuse = (error: Error) => {
    throw error
  }
  const journal = await openUploadCache(path, refuse)
  expect(journal.getSha256(found)).toBeUndefined()
  await journal.add(found, 'f'.repeat(64), 'id')
  await journal.add(found, 'f'.repeat(64), 'id')
  expect((await readFile(path, 'utf8')).match(/\n/g)).toHaveLength(1)
  expect((await stat(path)).mode & 0o777).toBe(0o600)
  await appendFile(path, '{"path":"/x","si')
  const again = await openUploadCache(path, refuse)
  expect(again.getSha256(found)).toBe('f'.repeat(64))
  expect(again.getSha256({ ...found, mtimeNs: '1' })).toBeUndefined()
  expect(again.getSha256({ ...found, ctimeNs: '1' })).toBeUndefined()
  expect(again.getSha256({ ...found, size: 2 })).toBeUndefined()
  const problems: string[] = []
  const nowhere = await openUploadCache(join(folder, 'a.txt', 'journal.jsonl'), ({ message }) => problems.push(message))
  await nowhere.add(found, 'f'.repeat(64), 'id')
  await nowhere.add({ ...found, size: 2 }, 'f'.repeat(64), 'id')
  expect(problems).toHaveLength(1)
  expect(uploadCachePath({ HOME: '/h' }, 's', ['/b', '/a'])).toBe(uploadCachePath({ HOME: '/h' }, 's', ['/a', '/b']))
  expect(uploadCachePath({ XDG_STATE_HOME: '/s' }, 's', ['/a'])).toMatch(/^\/s\/dms\/uploads\/[0-9a-f]{32}\.jsonl$/)
})

test('--after-upload move keeps subfolders, never overwrites, and leaves a changed file', async () => {
  const folder = await emptyFolder()
  await mkdir(join(folder, 'in/sub'), { recursive: true })
  await writeFile(join(folder, 'in/sub/a.txt'), 'first')
  const [first] = (await findFiles([join(folder, 'in')], all)) as [FoundFile]
  const moving = parseAfterUpload(`move:${join(folder, 'done')}`)
  await moving.apply(first, '')
  await writeFile(first.path, 'second')
  const [second] = (await findFiles([join(folder, 'in')], all)) as [FoundFile]
  await moving.apply(second, '')
  expect((await readdir(join(folder, 'done/sub'))).sort()).toEqual(['a (2).txt', 'a.txt'])
  expect(await readFile(join(folder, 'done/sub/a (2).txt'), 'utf8')).toBe('second')
  await writeFile(first.path, 'third')
  const [third] = (await findFiles([join(folder, 'in')], all)) as [FoundFile]
  await appendFile(third.path, ' and more')
  await expect(parseAfterUpload('delete').apply(third, '')).rejects.toMatchObject({ exit: 'CONFLICT' })
  expect(await readFile(third.path, 'utf8')).toBe('third and more')
  // As `cp -p` and `mv` replace it: with the size and modification time of the file before.
  const [fourth] = (await findFiles([third.path], all)) as [FoundFile]
  const { mtime } = await stat(fourth.path)
  await writeFile(join(folder, 'other'), 'other and more')
  await utimes(join(folder, 'other'), mtime, mtime)
  await utimes(fourth.path, mtime, mtime)
  const [known] = (await findFiles([fourth.path], all)) as [FoundFile]
  await rename(join(folder, 'other'), fourth.path)
  for (const action of ['delete', `move:${join(folder, 'done')}`])
    await expect(parseAfterUpload(action).apply(known, '')).rejects.toMatchObject({ exit: 'CONFLICT' })
  expect(await readFile(fourth.path, 'utf8')).toBe('other and more')
  expect(() => parseAfterUpload('burn')).toThrow('not keep, delete or move:DIR')
})

test.skipIf(process.getuid?.() === 0)(
  '--after-upload move of a file that cannot be removed leaves no copy; a dry run expects unreadable files to fail',
  async () => {
    const folder = await emptyFolder()
    await mkdir(join(folder, 'in'))
    await writeFile(join(folder, 'in/a.txt'), 'first')
    const [file] = (await findFiles([join(folder, 'in')], all)) as [FoundFile]
    await chmod(join(folder, 'in'), 0o500)
    await expect(parseAfterUpload(`move:${join(folder, 'done')}`).apply(file, '')).rejects.toMatchObject({ code: 'EACCES' })
    expect([await readdir(join(folder, 'done')), await readFile(file.path, 'utf8')]).toEqual([[], 'first'])
    await chmod(join(folder, 'in'), 0o700)
    const { dms } = await startCli('HTTP')
    await chmod(file.path, 0)
    const simulated = await dms(['documents', 'upload', '-n', file.path])
    expect([simulated.code, simulated.stderr]).toEqual([1, expect.stringContaining('permission denied')])
  },
)

test('--after-upload move: 2 for a folder in an uploaded folder, where files would be found again; not for one with a dot', async () => {
  const folder = await emptyFolder()
  await mkdir(join(folder, 'in'))
  await symlink(join(folder, 'in'), join(folder, 'link'))
  const refusal = (target: string) =>
    assertMovesOut(`move:${join(folder, target)}`, [join(folder, 'in')]).then(
      () => 'none',
      ({ exit }: { exit: string }) => exit,
    )
  for (const target of ['in', 'in/done', 'in/a/b', 'link/done']) expect([target, await refusal(target)]).toEqual([target, 'USAGE'])
  for (const target of ['done', 'in2', 'in/.done', '..in']) expect([target, await refusal(target)]).toEqual([target, 'none'])
})

test.skipIf(otherFileSystem === undefined)(
  '--after-upload move to another file system never overwrites and leaves whole files only',
  async () => {
    const [folder, target] = [await emptyFolder(), await emptyFolder(otherFileSystem)]
    const moving = parseAfterUpload(`move:${target}`)
    for (const content of ['first', 'second']) {
      await writeFile(join(folder, 'a.txt'), content)
      const [found] = (await findFiles([folder], all)) as [FoundFile]
      await moving.apply(found, '')
    }
    expect([await readdir(folder), (await readdir(target)).sort()]).toEqual([[], ['a (2).txt', 'a.txt']])
    expect(await readFile(join(target, 'a (2).txt'), 'utf8')).toBe('second')
  },
)

test.skipIf(otherFileSystem === undefined)(
  '--after-upload move to another file system removes incomplete files of killed runs',
  async () => {
    const [folder, target] = [await emptyFolder(), await emptyFolder(otherFileSystem)]
    await mkdir(join(folder, 'sub'))
    await mkdir(join(target, 'sub'))
    await writeFile(join(folder, 'sub', 'a.txt'), 'first')
    const [old, recent] = ['.dms-00000000000a.part', '.dms-00000000000b-1-1-00000000000b.part']
    for (const name of [old, recent]) await writeFile(join(target, 'sub', name), '')
    await utimes(join(target, 'sub', old), 1, 1)
    const [found] = (await findFiles([folder], all)) as [FoundFile]
    await parseAfterUpload(`move:${target}`).apply(found, '')
    expect((await readdir(join(target, 'sub'))).sort()).toEqual([recent, 'a.txt'])
  },
)

test('--after-upload: of a symbolic link, move leaves a copy of its file and delete nothing; the file that it points to stays', async () => {
  const folder = await emptyFolder()
  await mkdir(join(folder, 'in'))
  await writeFile(join(folder, 'report.txt'), 'report')
  const apply = async (action: string) => {
    await symlink('../report.txt', join(folder, 'in/link.txt'))
    const [found] = (await findFiles([join(folder, 'in')], { ...all, shouldFollowLinks: true })) as [FoundFile]
    await parseAfterUpload(action).apply(found, '')
    expect([await readdir(join(folder, 'in')), await readFile(join(folder, 'report.txt'), 'utf8')]).toEqual([[], 'report'])
  }
  await apply(`move:${join(folder, 'done/here')}`)
  await apply('delete')
  const moved = join(folder, 'done/here/link.txt')
  expect([(await lstat(moved)).isFile(), await readFile(moved, 'utf8')]).toEqual([true, 'report'])
  await writeFile(join(folder, 'report.txt'), 'edited')
  expect(await readFile(moved, 'utf8')).toBe('report')
})

test.each(['delete', 'move'])(
  '--after-upload %s: both hard links of a file are uploaded and go; a new status change time is no change',
  async (action) => {
    const { dms, folder, asAda } = await startCli('HTTP')
    const path = join(folder, 'in')
    await mkdir(path)
    await writeFile(join(path, 'a.txt'), 'one file')
    await link(join(path, 'a.txt'), join(path, 'b.txt'))
    const option = action === 'move' ? `move:${join(folder, 'done')}` : action
    expect(await dms(['documents', 'upload', '-r', path, '--after-upload', option])).toMatchObject({ code: 0 })
    expect([await readdir(path), (await Array.fromAsync(asAda.documents.list())).length]).toEqual([[], 1])
  },
)

test.skipIf(otherFileSystem === undefined)(
  '--after-upload move: a file that changes while it is copied stays, without a copy',
  async () => {
    const [folder, target] = [await emptyFolder(), await emptyFolder(otherFileSystem)]
    const path = join(folder, 'scan.pdf')
    const size = 200 << 20
    await writeFile(path, '')
    await truncate(path, size)
    const [found] = (await findFiles([folder], all)) as [FoundFile]
    const moved = parseAfterUpload(`move:${target}`)
      .apply(found, '')
      .then(
        () => 'moved',
        ({ exit }: { exit: string }) => exit,
      )
    while ((await readdir(target)).length === 0) await sleep(1)
    await appendFile(path, 'a second page')
    expect(await moved).toBe('CONFLICT')
    expect([(await stat(path)).size, await readdir(target)]).toEqual([size + 13, []])
  },
)

test('--limit-rate limits the total of all uploads; 2 for an invalid rate', async () => {
  const rate = createThrottle('100kB/s')
  const started = performance.now()
  await Promise.all([rate(10_000), rate(10_000), rate(10_000)])
  expect(performance.now() - started).toBeGreaterThan(190)
  await createThrottle(undefined)(1e12)
  for (const wrong of ['fast', '0', '5 apples/s']) expect(() => createThrottle(wrong)).toThrow('--limit-rate')
})

test('upload -r over HTTP: a second run sends missing and deleted files only; small files keep metadata and labels', async () => {
  const { dms, folder, asAda, asAdmin } = await startCli('HTTP')
  await asAdmin.labels.create({ name: 'Inbox', color: '#112233' })
  await mkdir(join(folder, 'in'))
  for (let index = 0; index < 12; index++) await writeFile(join(folder, 'in', `${index}.txt`), `number ${index}`)
  const env = { XDG_STATE_HOME: join(folder, 'state') }
  const args = ['documents', 'upload', '-r', join(folder, 'in'), '--metadata', 'box=7', '--label', 'inbox', '-o', 'jsonl']
  const first = await dms(args, { env })
  expect([first.code, first.stderr, readBatch(first.stdout).summary]).toMatchObject([0, '', { created: 12, bytes: 98 }])
  const { documents } = asAda
  const some = await Array.fromAsync(documents.list())
  expect(some.every(({ labels, metadata }) => labels[0] === 'Inbox' && metadata.box === '7')).toBe(true)
  expect(await readdir(join(folder, 'state/dms/uploads'))).toHaveLength(1)
  await documents.delete(some[3]?.id ?? '')
  await writeFile(join(folder, 'in', 'new.txt'), 'new')
  const second = readBatch((await dms(args, { env })).stdout)
  expect(second.summary).toMatchObject({ created: 2, unchanged: 11, failed: 0 })
  const { atime, mtime } = await stat(join(folder, 'in', '7.txt'))
  await writeFile(join(folder, 'other'), 'Number 7')
  await utimes(join(folder, 'other'), atime, mtime)
  await rename(join(folder, 'other'), join(folder, 'in', '7.txt'))
  expect(readBatch((await dms(args, { env })).stdout).summary).toMatchObject({ created: 1, unchanged: 12, failed: 0 })
  expect(new Set(second.items.map(({ id }) => id)).size).toBe(13)
})

test.each(['local', 'HTTP'] as const)(
  'upload -n %s: unchanged for known and repeated content, created for the rest; uploads nothing',
  async (transport) => {
    const { dms, folder, asAda } = await startCli(transport)
    for (const [name, text] of Object.entries({ 'known.txt': 'known', 'new.txt': 'new', 'repeated.txt': 'new' }))
      await writeFile(join(folder, name), text)
    await dms(['documents', 'upload', join(folder, 'known.txt')])
    const [stored] = await Array.fromAsync(asAda.documents.list())
    const files = ['known.txt', 'new.txt', 'repeated.txt'].map((name) => join(folder, name))
    const args = ['documents', 'upload', '-n', '--concurrency', '1', '--json', ...files]
    const { code, stdout } = await dms(args)
    expect([code, JSON.parse(stdout)]).toMatchObject([0, { dry_run: true, created: 1, unchanged: 2, items: [{ id: stored?.id }, {}, {}] }])
    expect(JSON.parse((await dms([...args, '--on-duplicate', 'upload'])).stdout)).toMatchObject({ created: 3, unchanged: 0 })
    expect(await Array.fromAsync(asAda.documents.list())).toHaveLength(1)
  },
)

test('413 with the limit for an oversized file, which is not read; the others are uploaded', async () => {
  const server = await startServer({ 'limits.max_upload_size': '1kB' })
  const folder = await emptyFolder()
  await writeFile(join(folder, 'small.txt'), 'small')
  // Larger than the limit plus the multipart overhead, so the client refuses it before sending.
  await writeFile(join(folder, 'large.bin'), Buffer.alloc(9 << 20, 1))
  const env = { DMS_URL: server.url, DMS_TOKEN: await tokenFor(server.app, server.ada), XDG_STATE_HOME: folder }
  const files = ['small.txt', 'large.bin'].map((name) => join(folder, name))
  const { code, stdout } = await runHere(['documents', 'upload', ...files, '--json'], { env })
  expect([code, JSON.parse(stdout)]).toMatchObject([3, { created: 1, failed: 1 }])
  const [refused] = JSON.parse(stdout).items.filter(({ action }: { action: string }) => action === 'failed')
  expect(refused.error).toEqual({ code: 'PAYLOAD_TOO_LARGE', message: expect.stringContaining('At most 1000 bytes.') })
  // Reading and hashing 3 TB would take an hour.
  const huge = join(folder, 'huge.bin')
  await writeFile(huge, '')
  await truncate(huge, 3e12)
  for (const more of [[], ['-n'], ['-n', '--on-duplicate', 'upload'], ['-n', '--local', '--as', 'ada']]) {
    const here = more.includes('--local')
      ? { DATABASE_URL: server.databaseUrl, DMS_DATA_DIR: server.dataDir, DMS_MAX_UPLOAD_SIZE: '1kB' }
      : env
    const ended = await runHere(['documents', 'upload', huge, '--json', ...more], { env: here })
    expect([more, ended.code, JSON.parse(ended.stdout).items]).toEqual([more, 1, [{ action: 'failed', key: huge, error: refused.error }]])
  }
})

test('upload: --min-age skips recent files; --after-upload delete deletes files that the server has', async () => {
  const { dms, folder } = await startCli('local')
  await mkdir(join(folder, 'in'))
  for (const name of ['old.txt', 'same.txt', 'young.txt']) await writeFile(join(folder, 'in', name), name.startsWith('y') ? 'young' : 'old')
  const before = new Date(Date.now() - 3_600_000)
  for (const name of ['old.txt', 'same.txt']) await utimes(join(folder, 'in', name), before, before)
  const args = ['documents', 'upload', '-r', join(folder, 'in'), '--min-age', '10m', '--after-upload', 'delete', '--concurrency', '1']
  const { code, stdout } = await dms([...args, '--json'])
  expect([code, JSON.parse(stdout)]).toMatchObject([0, { created: 1, unchanged: 1, skipped: 1 }])
  expect(await readdir(join(folder, 'in'))).toEqual(['young.txt'])
})

test('upload: --min-age counts from the arrival of a file that claims to be from the future', async () => {
  const { dms, folder } = await startCli('local')
  const path = join(folder, 'future.txt')
  await writeFile(path, 'future')
  const tomorrow = new Date(Date.now() + 86_400_000)
  await utimes(path, tomorrow, tomorrow)
  const upload = (minAge: string) => dms(['documents', 'upload', path, '--min-age', minAge, '--json'])
  expect(JSON.parse((await upload('10m')).stdout)).toMatchObject({ created: 0, skipped: 1 })
  await sleep(1000)
  expect(JSON.parse((await upload('1s')).stdout)).toMatchObject({ created: 1, skipped: 0 })
})

test('--after-upload delete: sends known content again, which replaces a lost stored file, before the local file is deleted', async () => {
  const { dms, folder, app, asAda } = await startCli('HTTP')
  const path = join(folder, 'scan.bin')
  // Larger than files that are sent without a look-up.
  const bytes = Buffer.alloc(9 << 20, 'page')
  await writeFile(path, bytes)
  expect(await dms(['documents', 'upload', path])).toMatchObject({ code: 0 })
  const [{ id, sha256 } = { id: '', sha256: '' }] = await Array.fromAsync(asAda.documents.list())
  await rm(app.files.describeLocation(await addressOf(app.db, sha256)))
  const { code, stdout } = await dms(['documents', 'upload', path, '--resume', '--after-upload', 'delete', '--json'])
  expect([code, JSON.parse(stdout)]).toMatchObject([0, { created: 0, unchanged: 1, items: [{ id }] }])
  expect(await readdir(folder)).not.toContain('scan.bin')
  expect(bytes.equals(Buffer.from(await (await asAda.documents.download(id)).arrayBuffer()))).toBe(true)
})

test('watch: uploads existing and new files once they are older than --min-age, moves them, exits 0 after SIGTERM', async () => {
  const { folder, env, asAda } = await startCli('HTTP')
  await mkdir(join(folder, 'in'))
  await writeFile(join(folder, 'in', 'first.txt'), 'first')
  const args = [
    'documents',
    'watch',
    join(folder, 'in'),
    '--settle',
    '100ms',
    '--min-age',
    '1s',
    '--after-upload',
    `move:${join(folder, 'done')}`,
    '-o',
    'jsonl',
  ]
  const child = spawn(process.execPath, [executable, ...args], { env: bareEnvironment(env), stdio: ['ignore', 'pipe', 'pipe'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  let stdout = ''
  const ended = new Promise((resolve) => child.on('close', resolve))
  const arrived = (name: string) =>
    new Promise<void>((resolve) => {
      const look = () => stdout.includes(`${name}"`) && resolve()
      child.stdout.on('data', look)
      look()
    })
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
  })
  await arrived('first.txt')
  await writeFile(join(folder, 'in', 'second.txt'), 'second')
  await arrived('second.txt')
  child.kill('SIGTERM')
  expect(await ended).toBe(0)
  expect(readBatch(stdout).summary).toMatchObject({ command: 'documents watch', created: 2, failed: 0, exit_code: 0 })
  expect((await readdir(join(folder, 'done'))).sort()).toEqual(['first.txt', 'second.txt'])
  expect((await Array.fromAsync(asAda.documents.list())).map(({ title }) => title).sort()).toEqual(['first', 'second'])
})
