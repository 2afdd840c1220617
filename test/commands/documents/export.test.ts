import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { closeSync, existsSync, openSync } from 'node:fs'
import { appendFile, chown, mkdir, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { expect, onTestFinished, test, vi } from 'vitest'
import { readTar } from '../../../src/backup/tar.ts'
import { splitIntoBatches } from '../../../src/cli/export/fetch-batch.ts'
import type { ExportFiles } from '../../../src/cli/export/find-files.ts'
import { documentFile, type ExportFile, exportFileName } from '../../../src/cli/export/manifest.ts'
import { exportToStdout } from '../../../src/cli/export/tar.ts'
import type { Cli } from '../../../src/cli/runtime/context.ts'
import { createClient } from '../../../src/client/client.ts'
import { localTransport } from '../../../src/client/local.ts'
import { renditionName } from '../../../src/documents/file-names.ts'
import { addressOf } from '../../../src/documents/stored-files.ts'
import { startApp, upload } from '../../support/app.ts'
import { cliTransports, startCli } from '../../support/cli-transports.ts'
import { bareEnvironment, executable } from '../../support/processes/run.ts'
import { runHere } from '../../support/processes/run-here.ts'
import { startProxy } from '../../support/servers/intercepting-proxy.ts'
import { mountSmallDisk } from '../../support/small-disk.ts'

const foundFiles = (files: readonly ExportFile[]): ExportFiles => ({
  batches: (async function* () {
    yield* splitIntoBatches(files)
  })(),
  documentCount: files.length,
  count: files.length,
})

const linesIn = (text: string): Record<string, unknown>[] =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))

test('names contain the end of the id, keep the extension, and fit a ustar header', () => {
  const id = '01900000-0000-7000-8000-0123456789ab'
  expect(exportFileName({ id, filename: '../../etc/pass\u202ewd' })).toBe('pass_wd-0123456789ab')
  expect(exportFileName({ id, filename: '.hidden.pdf' })).toBe('_hidden-0123456789ab.pdf')
  expect(exportFileName({ id, filename: 'Rechnung Nr. 5 vom 3. Mai' })).toBe('Rechnung Nr. 5 vom 3. Mai-0123456789ab')
  const twoExtensions = `a.${'議'.repeat(16)}.${'録'.repeat(16)}`
  for (const filename of [`Nr. 5 vom 3. ${'Mai '.repeat(50)}`, `a.${'b'.repeat(200)}`, `a.b ${'é'.repeat(100)}`, twoExtensions])
    expect(Buffer.byteLength(exportFileName({ id, filename }, 12)), filename).toBeLessThanOrEqual(96)
  const long = exportFileName({ id, filename: `${'é'.repeat(100)}.pdf` })
  expect(long).toMatch(/^é+-0123456789ab\.pdf$/)
  expect(Buffer.byteLength(long)).toBeLessThanOrEqual(96)
})

test('long names whose last dot begins no extension, and of 97 to 100 bytes: all files and texts of a tar', async () => {
  const { dms, folder, asAda, runJobs } = await startCli('HTTP')
  const sentence = 'Rechnung Nr. 5 vom 3. Maerz ueber die Lieferung von zwoelf neuen Stuehlen fuer das Buero in Berlin Mitte'
  const names = [sentence, ...[97, 98, 99, 100].map((length) => `${'n'.repeat(length - 4)}.txt`)]
  for (const name of names) await upload(asAda, name, `content of ${name}`)
  await runJobs()
  const to = join(folder, 'all.tar')
  const { code, stdout } = await dms(['documents', 'export', '--to', to, '--with-text', '--json'])
  expect([code, JSON.parse(stdout)]).toMatchObject([0, { created: 5, failed: 0 }])
  const paths: string[] = []
  for await (const { path } of readTar([await readFile(to)])) paths.push(path)
  expect(paths).toHaveLength(11)
  expect(paths.filter((path) => path.startsWith('Rechnung Nr. 5 vom 3. Maerz'))).toHaveLength(2)
  expect([sentence, 'Brief vom 24.12.2025'].map(renditionName)).toEqual([`${sentence}.pdf`, 'Brief vom 24.12.2025.pdf'])
})

test.skipIf(!existsSync('/dev/full'))('1 for an archive on a full standard output', async () => {
  const { env, asAda } = await startCli('HTTP')
  for (const name of ['a.txt', 'b.txt']) await upload(asAda, name, name)
  const full = openSync('/dev/full', 'w')
  onTestFinished(() => closeSync(full))
  const child = spawn(process.execPath, [executable, 'documents', 'export', '--to', '-'], {
    env: { ...bareEnvironment(), ...env },
    stdio: ['ignore', full, 'pipe'],
  })
  const [stderr, [code]] = await Promise.all([buffer(child.stderr!), once(child, 'exit')])
  expect([code, stderr.toString()]).toEqual([1, expect.stringContaining('ENOSPC')])
})

test.each([
  ['8 if --timeout passes during an archive', 8, /^error: the archive is not complete: --timeout of 8 s has passed\n$/],
  ['1 if the reader of an archive goes away', 1, /^error: cannot write the archive: write E(PIPE|CONNRESET)$/m],
])('%s to standard output', async (_, code, problem) => {
  const { env, asAda } = await startCli('HTTP')
  for (const name of ['a.txt', 'b.txt', 'c.txt']) await upload(asAda, name, name.repeat(600_000))
  const child = spawn(process.execPath, [executable, 'documents', 'export', '--to', '-', '--timeout', code === 8 ? '8s' : '1m'], {
    env: { ...bareEnvironment(), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const stderr = buffer(child.stderr)
  const ended = once(child, 'exit')
  await once(child.stdout, 'readable')
  if (code === 1) child.stdout.destroy()
  else setTimeout(() => child.stdout.resume(), 10_000)
  expect([(await ended)[0], (await stderr).toString()]).toEqual([code, expect.stringMatching(problem)])
})

test('the manifest of an archive is written in parts: all of it could be longer than a string can be', async () => {
  const count = 20_000
  const answer = () => new Response('x')
  const sha256 = createHash('sha256').update('x').digest('hex')
  const files = Array.from({ length: count }, (_, index) => {
    const file = `file-${index}.txt`
    const entry = () => ({ id: `id ${index}`, file, title: 'é' }) as never
    return {
      id: `${index}`,
      version: 1,
      size: 1,
      sha256,
      createdAt: '2026-01-02T03:04:05Z',
      file,
      hasText: false,
      entry,
      download: async () => answer(),
      text: async () => '',
    }
  })
  const written: Buffer[] = []
  const toArray = vi.spyOn(process.stdout, 'write').mockImplementation(((chunk: Uint8Array, done: () => void) => {
    written.push(Buffer.from(chunk))
    done()
  }) as never)
  onTestFinished(() => toArray.mockRestore())
  const progress = () => ({ update() {}, done() {} })
  const cli = { options: {}, exit: 'OK', signal: new AbortController().signal, progress, warn() {} } as unknown as Cli
  await exportToStdout(
    cli,
    createClient(async () => answer()),
    foundFiles(files),
    { hasText: false },
  )
  toArray.mockRestore()
  let manifest = Buffer.alloc(0)
  for await (const { path, bytes } of readTar(written)) {
    const content = await buffer(bytes)
    if (path === 'manifest.jsonl') manifest = content
  }
  expect(linesIn(manifest.toString())).toEqual(files.map(({ entry }) => entry()))
  expect(Math.max(...written.map(({ length }) => length))).toBeLessThan(manifest.length)
})

test.each([
  ['header of a small file', 0, 'ENOSPC'],
  ['small file', 1, 'ENOSPC'],
  ['header of a single file', 0, 'ETIMEDOUT'],
  ['single file', 1, 'ETIMEDOUT'],
])('a failed write of the %s ends the archive, although later writes would succeed', async (name, failing, code) => {
  const { app, ada } = await startApp()
  const transport = localTransport(app, ada.actor)
  let last = new Response()
  const client = createClient(async (request) => {
    last = await transport(request)
    return last
  })
  for (const letter of ['a', 'b', 'c']) await upload(client, `${letter}.txt`, letter.repeat(name.includes('single') ? 1_100_000 : 700))
  const documents = await Array.fromAsync(client.documents.list())
  const files = documents.map((document) => documentFile(client, document))
  let writeCount = 0
  const fails = vi.spyOn(process.stdout, 'write').mockImplementation(((_: Uint8Array, done: (error?: Error) => void) => {
    done(writeCount++ === failing ? Object.assign(new Error(code), { code }) : undefined)
  }) as never)
  onTestFinished(() => fails.mockRestore())
  const cli = {
    options: {},
    signal: new AbortController().signal,
    progress: () => ({ update() {}, done() {} }),
    warn() {},
  } as unknown as Cli
  const error = await exportToStdout(cli, client, foundFiles(files), { hasText: false }).catch((error) => error)
  fails.mockRestore()
  expect(error).toMatchObject({ exit: 'FAILED', message: `cannot write the archive: ${code}` })
  expect(writeCount).toBe(failing + 1)
  // An answer that is partly read would keep the client open.
  expect(await last.body?.getReader().read()).toMatchObject({ done: true })
})

test.each([
  ['small files', 700_000],
  ['a large file', 3_000_000],
])('1 and no archive if the target takes only part of %s', async (_, size) => {
  const { env, folder, asAda } = await startCli('HTTP')
  for (const name of ['a', 'b', 'c', 'd']) await upload(asAda, `${name}.txt`, name.repeat(size))
  const dms = [process.execPath, executable, 'documents', 'export', '--to', join(folder, 'all.tar'), '--json']
  // Blocks of 512 or 1024 bytes, by shell. A larger file of the compile cache could not be written either.
  const child = spawn('sh', ['-c', 'ulimit -f 2048; exec "$@"', 'sh', ...dms], {
    env: { ...bareEnvironment(), ...env, NODE_DISABLE_COMPILE_CACHE: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [stdout, stderr, [code]] = await Promise.all([buffer(child.stdout), buffer(child.stderr), once(child, 'exit')])
  expect([code, stderr.toString()]).toEqual([
    1,
    expect.stringContaining(`cannot write the archive: ${join(folder, 'all.tar')}: file too large`),
  ])
  expect(JSON.parse(stdout.toString())).toMatchObject({ failed: 1, exit_code: 1 })
  expect(await readdir(folder)).toEqual([])
})

test('1 with the name of the file if the disk is full: the export stops, and the manifest has the complete files', async ({ skip }) => {
  const folder = await mountSmallDisk(skip, 'size=2m')
  const { dms, asAda } = await startCli('HTTP')
  for (const name of ['a', 'b', 'c', 'd', 'e']) await upload(asAda, `${name}.txt`, name.repeat(900_000))
  const { code, stdout, stderr } = await dms(['documents', 'export', '--to', join(folder, 'out'), '--json', '--concurrency', '1'])
  expect([code, stderr]).toEqual([1, expect.stringContaining('.txt: no space left on device')])
  expect(JSON.parse(stdout)).toMatchObject({ created: 2, failed: 0, error: { code: 'ENOSPC' } })
  expect(linesIn(await readFile(join(folder, 'out', 'manifest.jsonl'), 'utf8'))).toHaveLength(2)
  expect(await readdir(join(folder, 'out'))).toHaveLength(3)
})

test.each(['out', 'out/all.tar'])('export to %s: removes what killed exports left, not what others are writing', async (target) => {
  const { dms, env, folder, asAda } = await startCli('HTTP')
  await upload(asAda, 'a.txt', 'a'.repeat(40_000_000))
  const out = join(folder, 'out')
  await mkdir(out)
  const to = ['documents', 'export', '--to', join(folder, target)]
  const parts = async () => (await readdir(out)).filter((name) => name.endsWith('.part')).sort()
  const child = spawn(process.execPath, [executable, ...to], { env: { ...bareEnvironment(), ...env }, stdio: 'ignore' })
  const ended = once(child, 'exit')
  const sizeOf = async (name: string) => (await stat(join(out, name)).catch(() => null))?.size ?? 0
  // Content: the temporary file of the manifest, which is empty, disappears at once.
  await expect
    .poll(async () => Math.max(...(await Promise.all((await parts()).map(sizeOf)))), { timeout: 30_000, interval: 1 })
    .toBeGreaterThan(0)
  child.kill('SIGKILL')
  await ended
  expect(await parts()).not.toEqual([])
  const [old, recent] = ['.dms-00000000000a.part', '.dms-00000000000b-1-1-00000000000b.part']
  for (const name of [old, recent]) await writeFile(join(out, name), '')
  await utimes(join(out, old), 1, 1)
  expect(await dms(to)).toMatchObject({ code: 0 })
  expect(await parts()).toEqual([recent])
})

test('75 while another export to the folder runs, which it names; --lock-timeout waits, and the manifest has the documents of both', async () => {
  const { dms, env, folder, asAda, url } = await startCli('HTTP')
  const [one, two] = [await upload(asAda, 'one.txt', 'one'), await upload(asAda, 'two.txt', 'two')]
  for (const [{ id }, label] of [
    [one, 'first'],
    [two, 'second'],
  ] as const)
    expect(await dms(['documents', 'update', id, '--add-label', label, '--create-labels'])).toMatchObject({ code: 0 })
  const stalled = Promise.withResolvers<void>()
  const proxy = await startProxy(url, async (path) => {
    if (/\/download|batch-get/.test(path)) await stalled.promise
    return undefined
  })
  const to = join(folder, 'out')
  const args = ['documents', 'export', '--to', to, '--label']
  const slow = { ...env, DMS_URL: proxy }
  const child = spawn(process.execPath, [executable, ...args, 'first'], { env: { ...bareEnvironment(), ...slow }, stdio: 'ignore' })
  const ended = once(child, 'exit')
  await expect.poll(() => existsSync(to) && readdir(to), { timeout: 30_000 }).toContain('.dms-export.lock')
  const refused = await dms([...args, 'second'])
  expect([refused.code, refused.stderr]).toEqual([75, expect.stringContaining(`(dms documents export pid=${child.pid} `)])
  const waiting = dms([...args, 'second', '--lock-timeout', '1m'])
  stalled.resolve()
  expect([(await ended)[0], (await waiting).code]).toEqual([0, 0])
  const lines = linesIn(await readFile(join(to, 'manifest.jsonl'), 'utf8'))
  expect(lines.map(({ id }) => id)).toEqual([one.id, two.id])
  expect((await readdir(to)).filter((name) => name.startsWith('.'))).toEqual([])
})

test.skipIf(process.getuid?.() !== 0 || !existsSync('/usr/bin/setpriv'))(
  'root exports to a folder of another user where it may not change owners, as on NFS',
  async () => {
    const { env, folder, asAda } = await startCli('HTTP')
    await upload(asAda, 'a.txt', 'a')
    await chown(folder, 12345, 12345)
    const args = ['--bounding-set=-chown', '--inh-caps=-chown', process.execPath, executable, 'documents', 'export', '--to', folder]
    const child = spawn('/usr/bin/setpriv', args, { env: { ...bareEnvironment(), ...env }, stdio: 'ignore' })
    expect((await once(child, 'exit'))[0]).toBe(0)
    expect(await readdir(folder)).toHaveLength(2)
  },
)

test('a file that is replaced during an export: the folder has the version of the manifest', async () => {
  const { dms, folder, asAda, url } = await startCli('HTTP')
  const { id, sha256 } = await upload(asAda, 'large.txt', 'old'.repeat(500_000))
  const isDownload = (path: string) => path.includes(`${id}/`) && path.endsWith('/download')
  const proxy = await startProxy(url, async (path) => {
    if (!isDownload(path)) return undefined
    await writeFile(join(folder, 'new.txt'), 'new'.repeat(500_000))
    expect(await dms(['documents', 'replace', id, join(folder, 'new.txt')])).toMatchObject({ code: 0 })
    return undefined
  })
  const to = join(folder, 'out')
  expect(await dms(['documents', 'export', '--to', to], { env: { DMS_URL: proxy } })).toMatchObject({ code: 0 })
  const [line] = linesIn(await readFile(join(to, 'manifest.jsonl'), 'utf8'))
  const bytes = await readFile(join(to, String(line?.file)))
  expect([line?.sha256, createHash('sha256').update(bytes).digest('hex')]).toEqual([sha256, sha256])
})

test('an export that was killed: the next one knows its files, and --delete-extra deletes those of deleted documents', async () => {
  const { dms, env, folder, asAda, url } = await startCli('HTTP')
  const small = await upload(asAda, 'small.txt', 'small')
  const large = await upload(asAda, 'large.txt', 'large'.repeat(300_000))
  const proxy = await startProxy(url, async (path) => (path.includes(`${large.id}/`) ? new Promise(() => {}) : undefined))
  const to = join(folder, 'mirror')
  const fileOf = ({ id }: { id: string }, stem: string) => `${stem}-${id.slice(-12)}.txt`
  const args = ['documents', 'export', '--to', to, '--concurrency', '1']
  const child = spawn(process.execPath, [executable, ...args], { env: { ...bareEnvironment(), ...env, DMS_URL: proxy }, stdio: 'ignore' })
  const ended = once(child, 'exit')
  await expect.poll(() => existsSync(join(to, '.dms-export.jsonl')), { timeout: 30_000 }).toBe(true)
  child.kill('SIGKILL')
  await ended
  expect(await readdir(to)).toContain(fileOf(small, 'small'))
  await asAda.documents.delete(small.id)
  await appendFile(join(to, '.dms-export.jsonl'), '{"id":')
  const { code, stdout } = await dms([...args, '--delete-extra', '--json'])
  expect([code, JSON.parse(stdout)]).toMatchObject([0, { created: 1, deleted: 1 }])
  expect((await readdir(to)).sort()).toEqual([fileOf(large, 'large'), 'manifest.jsonl'])
})

test('export to a folder: files, texts and manifest; a second run writes changes only; --delete-extra deletes exported files only', async () => {
  const { dms, folder, asAda, runJobs } = await startCli('HTTP')
  const one = await upload(asAda, 'same.txt', 'one')
  const two = await upload(asAda, 'same.txt', 'two')
  await runJobs()
  const to = join(folder, 'out')
  const run = async (...more: string[]) => {
    const { code, stdout } = await dms(['documents', 'export', '--to', to, '--json', ...more])
    return { code, ...JSON.parse(stdout) }
  }
  expect(await run('--with-text')).toMatchObject({ code: 0, created: 2, bytes: 6 })
  const lines = linesIn(await readFile(join(to, 'manifest.jsonl'), 'utf8'))
  expect(lines.map(({ id, sha256 }) => [id, sha256])).toEqual([one, two].map(({ id, sha256 }) => [id, sha256]))
  for (const [line, text] of [
    [lines[0], 'one'],
    [lines[1], 'two'],
  ] as const) {
    expect(await readFile(join(to, String(line?.file)), 'utf8')).toBe(text)
    expect(await readFile(join(to, String(line?.text_file)), 'utf8')).toBe(text)
  }
  await writeFile(join(to, String(lines[0]?.file)), 'eno, and more')
  await writeFile(join(to, 'mine.txt'), 'mine')
  await asAda.documents.delete(two.id)
  expect(await run('--with-text')).toMatchObject({ updated: 1, unchanged: 0 })
  expect(await readFile(join(to, String(lines[0]?.file)), 'utf8')).toBe('one')
  expect(await run('--delete-extra')).toMatchObject({ unchanged: 1, deleted: 1, exit_code: 0 })
  expect((await readdir(to)).sort()).toEqual([
    'manifest.jsonl',
    'mine.txt',
    `same-${one.id.slice(-12)}.txt`,
    `same-${one.id.slice(-12)}.txt.txt`,
  ])
  await asAda.documents.delete(one.id)
  expect(await run('--delete-extra', '--allow-empty')).toMatchObject({ deleted: 1, exit_code: 0 })
  expect((await readdir(to)).sort()).toEqual(['manifest.jsonl', 'mine.txt'])
})

test('--delete-extra deletes the files and the texts of earlier names of a document, also after exports without it', async () => {
  const { dms, folder, app, asAda, runJobs } = await startCli('HTTP')
  const { id } = await upload(asAda, 'draft.txt', 'one')
  await runJobs()
  const to = join(folder, 'mirror')
  const run = async (...more: string[]) => (await dms(['documents', 'export', '--to', to, '--with-text', ...more])).code
  const rename = (filename: string) => app.db.updateTable('documents').set({ filename }).where('id', '=', id).execute()
  const filesOf = (stem: string) => [`${stem}-${id.slice(-12)}.txt`, `${stem}-${id.slice(-12)}.txt.txt`]
  expect(await run('--delete-extra')).toBe(0)
  for (const name of ['second.txt', 'third.txt']) {
    await rename(name)
    expect(await run()).toBe(0)
  }
  expect((await readdir(to)).sort()).toEqual([...filesOf('draft'), 'manifest.jsonl', ...filesOf('second'), ...filesOf('third')])
  await rename('final.txt')
  expect(await run('--delete-extra')).toBe(0)
  expect((await readdir(to)).sort()).toEqual([...filesOf('final'), 'manifest.jsonl'])
})

test('--delete-extra keeps the copy of every existing document, also if another is deleted between two pages', async () => {
  const { dms, folder, asAda, url } = await startCli('HTTP')
  // One page and a few more.
  const ids: string[] = []
  for (let made = 0; made < 103; made++) ids.push((await upload(asAda, `${made}.txt`, `bytes ${made}`)).id)
  const to = join(folder, 'mirror')
  expect(await dms(['documents', 'export', '--to', to])).toMatchObject({ code: 0 })

  let pages = 0
  const proxy = createServer(async ({ url: path = '/', headers }, response) => {
    const answer = await fetch(new URL(path, url), { headers: { authorization: headers.authorization ?? '' } })
    const body = Buffer.from(await answer.arrayBuffer())
    const { 'content-length': _, 'transfer-encoding': __, ...others } = Object.fromEntries(answer.headers)
    // After the first page, three deletions shift the following rows.
    if (path.startsWith('/api/documents?') && pages++ === 0) for (const id of ids.slice(0, 3)) await asAda.documents.delete(id)
    response.writeHead(answer.status, others).end(body)
  }).listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  onTestFinished(() => void proxy.close())
  const env = { DMS_URL: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}` }
  const { code, stdout } = await dms(['documents', 'export', '--to', to, '--delete-extra', '-o', 'json'], { env })
  expect(pages).toBe(2)
  const files = await readdir(to)
  const lost = ids.slice(3).filter((id) => !files.some((file) => file.includes(id.slice(-12))))
  expect({ code, lost }).toEqual({ code: 0, lost: [] })
  expect(JSON.parse(stdout)).toMatchObject({ unchanged: 103, created: 0 })
  expect(JSON.parse(stdout).deleted ?? 0).toBe(0)
})

test('3 for one damaged file among many; the others are exported with few requests, also as tar', async () => {
  const { dms, folder, asAda, app, url } = await startCli('HTTP')
  const ids: string[] = []
  for (let made = 0; made < 30; made++) ids.push((await upload(asAda, `${made}.txt`, `bytes ${made}`)).id)
  const { sha256 } = await asAda.documents.get(ids[7] as string)
  await writeFile(app.files.describeLocation(await addressOf(app.db, sha256)), 'BYTES 7')
  const requests: string[] = []
  const proxy = createServer(async (request, response) => {
    requests.push(request.url ?? '')
    const { method = 'GET', headers } = request
    const body = method === 'POST' ? { body: await buffer(request) } : {}
    const { authorization = '', 'content-type': type = 'application/json' } = headers
    const answer = await fetch(new URL(request.url ?? '', url), { method, ...body, headers: { authorization, 'content-type': type } })
    const { 'transfer-encoding': _, ...others } = Object.fromEntries(answer.headers)
    response.writeHead(answer.status, others).end(Buffer.from(await answer.arrayBuffer()))
  }).listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  onTestFinished(() => void proxy.close())
  const env = { DMS_URL: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}` }
  const to = join(folder, 'out')
  const { code, stdout } = await dms(['documents', 'export', '--to', to, '--json'], { env })
  expect([code, JSON.parse(stdout)]).toMatchObject([3, { created: 29, failed: 1 }])
  expect(requests.filter((path) => path.startsWith('/api/documents')).length).toBeLessThan(6)
  expect((await readdir(to)).length).toBe(30)
})

test.each(cliTransports)('3 for a missing stored file %s: its document is named, and all others are exported', async (transport) => {
  const { dms, folder, asAda, app, envOf, admin } = await startCli(transport)
  const env = await envOf(admin)
  const { sha256 } = await upload(asAda, 'a.txt', 'bytes a')
  for (const name of ['b.txt', 'c.txt']) await upload(asAda, name, `bytes of ${name}`)
  await rm(app.files.describeLocation(await addressOf(app.db, sha256)))
  for (const to of [join(folder, 'out'), join(folder, 'out.tar')]) {
    const { code, stdout } = await dms(['documents', 'export', '--to', to, '--json'], { env, timeout: 30_000 })
    const { items, ...summary } = JSON.parse(stdout) as { items: { action: string }[] }
    const failed = items.filter(({ action }) => action === 'failed')
    expect([code, summary, failed]).toMatchObject([
      3,
      { created: 2, failed: 1 },
      [{ key: expect.stringMatching(/^a-/), error: { message: 'The stored file cannot be read.' } }],
    ])
  }
})

test('6 for an unknown owner, source or label, 5 for another owner; --delete-extra deletes nothing then', async () => {
  const { dms, folder, asAda, databaseUrl, dataDir } = await startCli('local')
  await upload(asAda, 'a.txt', 'one')
  const to = join(folder, 'out')
  expect((await dms(['documents', 'export', '--to', to, '--owner', 'Ada'])).code).toBe(0)
  const before = await readdir(to)
  expect(before).toHaveLength(2)
  const again = ['documents', 'export', '--to', to, '--delete-extra']
  const none = '01900000-0000-7000-8000-0123456789ab'
  for (const flag of ['--label', '--source']) expect((await dms([...again, flag, none])).code).toBe(6)
  expect((await dms([...again, '--owner', 'nobody'])).code).toBe(5)
  const asOperator = { env: { DATABASE_URL: databaseUrl, DMS_DATA_DIR: dataDir } }
  expect(await runHere([...again, '--owner', 'nobody'], asOperator)).toMatchObject({ code: 6, stderr: 'error: no user "nobody"\n' })
  expect(await readdir(to)).toEqual(before)
})

test('7 if --delete-extra would empty the mirror, but not with --allow-empty or for a new folder', async () => {
  const { dms, folder, asAda } = await startCli('local')
  const { id } = await upload(asAda, 'a.txt', 'one')
  const to = join(folder, 'out')
  const mirror = ['documents', 'export', '--to', to, '--delete-extra']
  const nothing = [...mirror, '--until', '2001-01-01']
  expect((await dms(nothing)).code).toBe(0)
  expect((await dms(mirror)).code).toBe(0)
  const before = (await readdir(to)).sort()
  expect(before).toEqual([`a-${id.slice(-12)}.txt`, 'manifest.jsonl'])
  const refused = await dms(nothing)
  expect(refused).toMatchObject({
    code: 7,
    stdout: '',
    stderr: expect.stringMatching(/^error: no document matches.*\n +fix: .*--allow-empty/),
  })
  expect((await readdir(to)).sort()).toEqual(before)
  expect(await dms([...nothing, '--allow-empty', '--json'])).toMatchObject({ code: 0, stdout: expect.stringContaining('"deleted": 1') })
  expect(await readdir(to)).toEqual(['manifest.jsonl'])
  expect((await dms(['documents', 'export', '--to', to, '--allow-empty'])).code).toBe(2)
})

test('export to tar: atomically to a file, or to standard output; 7 for an existing file', async () => {
  const { dms, folder, asAda } = await startCli('local')
  const { id } = await upload(asAda, 'a.txt', 'x'.repeat(700))
  const name = `a-${id.slice(-12)}.txt`
  const to = join(folder, 'all.tar')
  expect((await dms(['documents', 'export', '--to', to, '-q'])).code).toBe(0)
  const piped = await dms(['documents', 'export', '--to', '-'])
  expect([piped.code, piped.stderr]).toEqual([0, ''])
  for (const bytes of [await readFile(to), Buffer.from(piped.stdout, 'latin1')]) {
    const found: [string, string][] = []
    for await (const { path, bytes: content } of readTar([bytes]))
      found.push([path, Buffer.concat(await Array.fromAsync(content)).toString()])
    expect(found.map(([path]) => path)).toEqual([name, 'manifest.jsonl'])
    expect(found[0]?.[1]).toBe('x'.repeat(700))
    expect(linesIn(found[1]?.[1] ?? '')).toMatchObject([{ id, file: name }])
  }
  expect((await dms(['documents', 'export', '--to', to])).code).toBe(7)
  expect((await dms(['documents', 'export', '--to', to, '--delete-extra'])).code).toBe(2)
  await mkdir(join(folder, 'odd'))
  await writeFile(join(folder, 'odd', 'manifest.jsonl'), 'not ours')
  expect((await dms(['documents', 'export', '--to', join(folder, 'odd')])).code).toBe(2)
  expect(await readdir(folder)).not.toContainEqual(expect.stringContaining('.part'))
})
