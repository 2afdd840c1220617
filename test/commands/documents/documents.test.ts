import { createHash } from 'node:crypto'
import fs, { readdir, readFile, utimes, writeFile } from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { upload } from '../../support/app.ts'
import { cliTransports, readBatch, startCli } from '../../support/cli-transports.ts'
import { registerIdleWorker } from '../../support/idle-worker.ts'

const sha256 = (bytes: string | Buffer) => createHash('sha256').update(bytes).digest('hex')
const nowhere = '01900000-0000-7000-8000-000000000000'

describe.each(cliTransports)('%s:', (transport) => {
  test('list: formats, filters, order and limit; text only with --fields content', async () => {
    const { dms, asAda, asBob, asAdmin, folder } = await startCli(transport)
    await asAdmin.call('POST', '/api/labels', { name: 'Tax', color: '#336699' })
    const a = await upload(asAda, 'a.txt', 'aaa', { labels: 'Tax' })
    const b = await upload(asAda, 'b.txt', 'b')
    await upload(asBob, 'c.txt', 'c')
    const { code, stdout, stderr } = await dms(['documents', 'list'])
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout).toBe(`${b.id}\tb\tpending\t\t\t1\t${b.created_at}\t\n${a.id}\ta\tpending\t\tTax\t3\t${a.created_at}\t\n`)
    const json = JSON.parse((await dms(['documents', 'list', '--json', '--label', 'tax'])).stdout)
    expect(json).toEqual([{ ...a, content: undefined }].map(({ content, ...others }) => others))
    const first = await dms(['docs', 'ls', '--sort', 'size', '-o', 'id', '--limit', '1', '-v'])
    expect(first.stdout).toBe(`${a.id}\n`)
    expect(first.stderr).toMatch(/showing 1 of \d+; use --all/)
    const csv = await dms(['documents', 'list', '--fields', 'title,content', '-o', 'csv', '--since', '1h', '--status', 'pending,failed'])
    expect(csv.stdout).toBe('TITLE,CONTENT\nb,\na,\n')
    expect(await dms(['documents', 'list', '--to', '2001-01-01', '--json'])).toMatchObject({ code: 0, stdout: '[]\n' })
    expect((await dms(['documents', 'list', '--status', 'lost'])).code).toBe(2)
    expect((await dms(['documents', 'list', '--label', 'none'])).code).toBe(6)
    for (const noun of ['label', 'status', 'warning'])
      for (const empty of ['', ' ', ', ']) {
        const refused = { code: 2, stdout: '', stderr: expect.stringContaining(`--${noun}: no ${noun} given`) }
        expect(await dms(['documents', 'list', `--${noun}`, empty, '-o', 'id'])).toMatchObject(refused)
        expect(await dms(['documents', 'export', `--${noun}`, empty, '--to', folder])).toMatchObject(refused)
      }
  })

  test('get and text: 6 for a missing or foreign document, 8 before OCR has finished', async () => {
    const { dms, asAda, asBob, runJobs } = await startCli(transport)
    const { id } = await upload(asAda, 'a.txt', 'line one\nline two')
    const own = await upload(asAda, 'c.txt', 'another')
    const other = await upload(asBob, 'b.txt', 'secret')
    expect(await dms(['documents', 'text', id])).toMatchObject({ code: 8, stdout: '' })
    await runJobs()
    expect(await dms(['documents', 'text', id])).toMatchObject({ code: 0, stdout: 'line one\nline two' })
    expect(JSON.parse((await dms(['documents', 'get', id, '--json'])).stdout)).toMatchObject({
      id,
      status: 'completed',
      content: 'line one\nline two',
    })
    expect((await dms(['documents', 'get', id, '--fields', 'sha256'])).stdout).toBe(`sha256\t${sha256('line one\nline two')}\n`)
    const piped = await dms(['documents', 'get', '-', id, '--fields', 'filename', '-o', 'jsonl'], { input: `${own.id}\n` })
    expect(piped).toMatchObject({ code: 0, stdout: '{"filename":"c.txt"}\n{"filename":"a.txt"}\n' })
    for (const unknown of [other.id, '..'])
      expect(await dms(['documents', 'get', id, unknown])).toMatchObject({ code: 6, stdout: '', stderr: expect.stringContaining(unknown) })
    expect((await dms(['documents', 'text', nowhere])).code).toBe(6)
  })

  test('download: to a folder, a file or a pipe; existing files stay without --clobber', async () => {
    const { dms, asAda, folder } = await startCli(transport)
    const bytes = Buffer.alloc(3_000_000, 'dms ')
    const { id } = await upload(asAda, 'scan 1.bin', bytes, { title: 'Über/uns' })
    const target = join(folder, 'out', 'deep')
    const row = await dms(['documents', 'download', id, '--to', `${target}/`])
    expect(row).toMatchObject({ code: 0, stderr: '', stdout: `${id}\t${target}/scan 1.bin\t3000000\t${sha256(bytes)}\tcreated\t\n` })
    expect(sha256(await readFile(join(target, 'scan 1.bin')))).toBe(sha256(bytes))

    await writeFile(join(target, 'scan 1.bin'), 'mine')
    const refused = await dms(['documents', 'download', id, '--to', target])
    expect([refused.code, refused.stdout]).toEqual([7, `${id}\t\t\t\tfailed\t${target}/scan 1.bin exists\n`])
    expect(JSON.parse((await dms(['documents', 'download', id, '--to', target, '--skip-existing', '--json'])).stdout)).toMatchObject({
      skipped: 1,
    })
    expect(await readFile(join(target, 'scan 1.bin'), 'utf8')).toBe('mine')
    expect((await dms(['documents', 'download', id, '--to', target, '--clobber'])).code).toBe(0)

    await dms(['documents', 'download', id, '--to', target, '--name', 'id'])
    await dms(['documents', 'download', id, '--to', target, '--name', 'title'])
    await dms(['documents', 'download', id, '--to', join(target, 'named')])
    expect((await readdir(target)).sort()).toEqual([`${id}.bin`, 'named', 'scan 1.bin', 'Über_uns.bin'])
    const piped = await dms(['documents', 'download', id, '--to', '-'])
    expect([piped.code, sha256(piped.stdout)]).toEqual([0, sha256(bytes)])
    expect((await dms(['documents', 'download', id, nowhere, '--to', `${target}/two`, '-q'])).code).toBe(3)
  })

  test('2 for --to in a folder that does not exist', async () => {
    const { dms, asAda, folder } = await startCli(transport)
    const { id } = await upload(asAda, 'a.txt', 'a')
    const [file, archive] = [join(folder, 'none', 'a.txt'), join(folder, 'none', 'a.tar')]
    for (const [to, ...args] of [
      [file, 'download', id],
      [file, 'thumbnail', id],
      [archive, 'export'],
    ]) {
      const stderr = `error: --to ${to}: ${folder}/none/: no such file or directory\n`
      expect(await dms(['documents', ...args, '--to', to ?? '']), args[0]).toEqual({ code: 2, signal: null, stdout: '', stderr })
    }
  })

  test('download: removes the incomplete files of killed commands from its folder', async () => {
    const { dms, folder, asAda } = await startCli(transport)
    const { id } = await upload(asAda, 'a.txt', 'a')
    const [old, recent] = ['.dms-00000000000a.part', '.dms-00000000000b-1-1-00000000000b.part']
    for (const name of [old, recent]) await writeFile(join(folder, name), '')
    await utimes(join(folder, old), 1, 1)
    expect(await dms(['documents', 'download', id, '--to', join(folder, 'b.txt')])).toMatchObject({ code: 0 })
    expect((await readdir(folder)).filter((name) => name.endsWith('.part'))).toEqual([recent])
  })

  test('download: a name without extension gives none to --name id', async () => {
    const { dms, asAda, folder } = await startCli(transport)
    const { id } = await upload(asAda, 'Rechnung Nr. 5 vom 3. Mai', 'five')
    expect((await dms(['documents', 'download', id, '--to', folder, '--name', 'id'])).code).toBe(0)
    expect(await readdir(folder)).toEqual([id])
  })

  test('download: two documents with one file name do not overwrite each other', async () => {
    const { dms, asAda, folder } = await startCli(transport)
    const [one, two] = [await upload(asAda, 'same.txt', 'one'), await upload(asAda, 'same.txt', 'two')]
    // With the second one, the first document is skipped and the other one is still missing.
    for (const flag of ['--clobber', '--skip-existing']) {
      const { code, stderr } = await dms(['documents', 'download', '-', '--to', folder, flag, '-o', 'id'], {
        input: `${one.id}\n${two.id}\n`,
      })
      expect([code, stderr]).toEqual([3, expect.stringContaining('another document in this download')])
    }
    expect(await readFile(join(folder, 'same.txt'), 'utf8')).toBe('one')
  })

  test('download: names that differ in case do not overwrite each other if the file system ignores case', async () => {
    const { dms, asAda, folder } = await startCli(transport)
    const ids = [(await upload(asAda, 'Same.txt', 'one')).id, (await upload(asAda, 'same.txt', 'two')).id]
    const { lstat } = fs
    // Finds entries as such a file system does.
    fs.lstat = (async (path: string) => {
      const name = (await readdir(dirname(path))).find((entry) => entry.toLowerCase() === basename(path).toLowerCase())
      return lstat(join(dirname(path), name ?? basename(path)))
    }) as typeof lstat
    syncBuiltinESMExports()
    onTestFinished(() => {
      fs.lstat = lstat
      syncBuiltinESMExports()
    })
    for (const flag of ['--clobber', '--skip-existing']) {
      const { code, stderr } = await dms(['documents', 'download', ...ids, '--to', folder, flag, '-o', 'id'])
      expect([code, stderr]).toEqual([3, expect.stringContaining('another document in this download')])
      expect(await readdir(folder)).toEqual(['Same.txt'])
    }
  })

  test('delete: to the trash and back; asks for --permanent without --yes; ids from a pipe; 6 for an unknown id', async () => {
    const { dms, asAda } = await startCli(transport)
    const [one, two] = [await upload(asAda, '1.txt', '1'), await upload(asAda, '2.txt', '2')]
    expect(await dms(['documents', 'delete', one.id, '-q'])).toMatchObject({ code: 0 })
    expect((await dms(['trash', 'list', '-o', 'id'])).stdout).toBe(`${one.id}\n`)
    const back = await dms(['documents', 'undelete', '-', '-o', 'jsonl'], { input: `${one.id}\n${two.id}\n${nowhere}\n` })
    expect([back.code, readBatch(back.stdout).items]).toMatchObject([
      3,
      [
        { action: 'restored' },
        { action: 'failed', error: { code: 'CONFLICT' } },
        { action: 'failed', error: { code: 'DOCUMENT_NOT_FOUND' } },
      ],
    ])
    expect(await dms(['documents', 'delete', two.id, '-q'])).toMatchObject({ code: 0 })
    const again = await dms(['documents', 'delete', two.id, '-n', '-o', 'jsonl'])
    expect([again.code, readBatch(again.stdout).items]).toMatchObject([6, [{ action: 'failed', key: two.id }]])
    expect((await dms(['documents', 'delete', two.id, '-n', '--permanent'])).code).toBe(0)
    expect((await dms(['documents', 'undelete', two.id])).code).toBe(0)
    const unasked = await dms(['documents', 'delete', one.id, '--permanent'])
    expect(unasked).toMatchObject({ code: 2, stderr: expect.stringContaining('pass --yes') })
    const dry = await dms(['documents', 'delete', one.id, '-n', '--json'])
    expect(JSON.parse(dry.stdout)).toMatchObject({ dry_run: true, items: [{ action: 'deleted', key: one.id }] })
    const many = await dms(['documents', 'rm', '-', '-y', '-o', 'jsonl'], { input: `${one.id}\n${nowhere}\n${two.id}\n` })
    expect(many.code).toBe(3)
    expect(readBatch(many.stdout).items).toMatchObject([
      { action: 'deleted' },
      { action: 'failed', error: { code: 'DOCUMENT_NOT_FOUND' } },
      { action: 'deleted' },
    ])
    expect((await dms(['documents', 'delete', one.id, '--yes'])).code).toBe(6)
    expect((await dms(['documents', 'list', '-o', 'id'])).stdout).toBe('')
    expect(JSON.parse((await dms(['trash', 'empty', '-n', '-o', 'json'])).stdout)).toEqual({ purged: 2, retained: 0, dry_run: true })
    expect((await dms(['trash', 'empty', '-n'])).stdout).toBe('purged\t2\nretained\t0\ndry_run\ttrue\n')
    expect(await dms(['trash', 'empty'])).toMatchObject({ code: 2, stderr: expect.stringContaining('pass --yes') })
    expect((await dms(['documents', 'delete', one.id, '--permanent', '-y'])).code).toBe(0)
    expect(JSON.parse((await dms(['trash', 'empty', '-y', '-o', 'json'])).stdout)).toEqual({ purged: 1, retained: 0, dry_run: false })
  })

  test('wait: 0 if all are completed and search finds them, 3 if one failed, 6 for an unknown id, 8 after --timeout', async () => {
    const { dms, app, asAda, asBob, runJobs } = await startCli(transport)
    const [good, bad] = [await upload(asAda, 'a.txt', 'fine'), await upload(asAda, 'b.pdf', '%PDF-1.7\nnot one')]
    // Another worker is registered, so this process runs no jobs.
    await registerIdleWorker(app)
    const late = await dms(['documents', 'wait', good.id, '--timeout', '1s'])
    expect(late).toMatchObject({
      code: 8,
      stdout: `${good.id}\tpending\ta\t\n`,
      stderr: expect.stringContaining('1 of 1 documents cannot be found by search yet'),
    })
    await runJobs(['ocr'])
    expect(await dms(['documents', 'wait', good.id, '--timeout', '1s'])).toMatchObject({ code: 8, stdout: `${good.id}\tcompleted\ta\t\n` })
    const bads = [bad.id, nowhere]
    expect([await asAda.search.pending([good.id, ...bads]), await asBob.search.pending([good.id])]).toEqual([
      expect.toSatisfy((ids: string[]) => ids.length === 2 && ids.includes(good.id)),
      [],
    ])
    await runJobs()
    expect(await asAda.search.pending([good.id, ...bads])).toEqual([])
    expect((await dms(['search', 'query', 'fine', '-o', 'id'])).stdout).toBe(`${good.id}\n`)
    expect(await dms(['documents', 'wait', good.id])).toMatchObject({ code: 0, stdout: `${good.id}\tcompleted\ta\t\n`, stderr: '' })
    const both = await dms(['documents', 'wait', '-', '--json'], { input: `${good.id} ${bad.id}` })
    expect(both.code).toBe(3)
    expect(JSON.parse(both.stdout)).toMatchObject([
      { status: 'completed', error: null },
      { status: 'failed', error: { code: expect.any(String) } },
    ])
    expect((await dms(['documents', 'wait', nowhere])).code).toBe(6)
  })
})

test('upload --wait: 8 with the command for the server if no worker runs OCR or indexing; it says so before', async () => {
  const { dms, app, folder } = await startCli('HTTP')
  await writeFile(join(folder, 'a.txt'), 'fine')
  await registerIdleWorker(app)
  const { now } = performance
  let polls = 0
  // A second each time that the command looks at the clock.
  vi.spyOn(performance, 'now').mockImplementation(() => now.call(performance) + ++polls * 1000)
  onTestFinished(() => void vi.restoreAllMocks())
  const { code, stdout, stderr } = await dms(['documents', 'upload', join(folder, 'a.txt'), '--wait', '-o', 'jsonl'])
  expect(code).toBe(8)
  expect(readBatch(stdout).items).toMatchObject([{ action: 'created', status: 'pending' }])
  expect(stderr).toContain('no worker runs OCR and indexing on the server; 1 of 1 documents wait for one\n')
  expect(JSON.parse(stderr.trim().split('\n').at(-1) ?? '')).toMatchObject({
    error: { message: expect.stringContaining('1 of 1 documents cannot be found by search yet') },
    exit_code: 8,
  })
})

test('update: title, labels and metadata of one document, labels of many; concurrently added labels stay', async () => {
  const { dms, asAda, asAdmin } = await startCli('HTTP')
  await asAdmin.labels.create({ name: 'Paid', color: '#111111' })
  const inbox = await asAdmin.labels.create({ name: 'Inbox', color: '#222222' })
  const [one, two] = [
    await upload(asAda, '1.txt', '1', { labels: 'Inbox' }),
    await upload(asAda, '2.txt', '2', { metadata: { draft: 'yes' } }),
  ]
  const changed = await dms(['documents', 'update', one.id, '--title', 'One', '--add-label', 'paid', '--remove-label', 'inbox', '--json'])
  expect(JSON.parse(changed.stdout)).toMatchObject({ id: one.id, title: 'One', labels: ['Paid'] })
  const both = await dms(
    ['documents', 'update', '-', '--set', 'account=4711', '--unset', 'draft', '--add-label', inbox.id, '-o', 'jsonl'],
    {
      input: `${one.id}\n${two.id}\n`,
    },
  )
  expect(readBatch(both.stdout).summary).toMatchObject({ command: 'documents update', updated: 2 })
  expect(await asAda.documents.get(one.id)).toMatchObject({ labels: ['Inbox', 'Paid'], metadata: { account: '4711' } })
  expect((await asAda.documents.get(two.id)).metadata).toEqual({ account: '4711' })
  expect((await dms(['documents', 'update', one.id])).code).toBe(2)
  expect((await dms(['documents', 'update', one.id, '--add-label', 'none'])).code).toBe(6)
  expect((await dms(['documents', 'update', one.id, two.id, '--title', 'x'])).code).toBe(2)
})

test('thumbnail: writes a WebP file and replaces it with --clobber only; 2 for an invalid size', async () => {
  const { dms, asAda, folder } = await startCli('local')
  const { id } = await upload(asAda, 'a.txt', 'text on a page')
  const to = ['--to', join(folder, 'a.webp')]
  expect((await dms(['documents', 'thumbnail', id, ...to])).code).toBe(0)
  expect((await readFile(join(folder, 'a.webp'))).subarray(8, 12).toString()).toBe('WEBP')
  expect((await dms(['documents', 'thumbnail', id, ...to])).code).toBe(7)
  expect((await dms(['documents', 'thumbnail', id, '--width', '0'])).code).toBe(2)
})

test('wait, upload --wait and the dry run of ocr queue retry request documents without their texts', async () => {
  const { dms, asAda, folder, runJobs } = await startCli('HTTP')
  const { id } = await upload(asAda, 'a.txt', 'harbour fees')
  await runJobs()
  const file = join(folder, 'b.txt')
  await writeFile(file, 'harbour fees')
  for (const args of [
    ['documents', 'wait', id],
    ['documents', 'upload', file, '--wait'],
    ['ocr', 'queue', 'retry', '--document', id, '-n'],
  ]) {
    const { code, stderr } = await dms([...args, '-vv'])
    expect([args, code, stderr]).toEqual([args, 0, expect.stringMatching(`GET \\S+/api/documents/${id}\\?content=false  200`)])
  }
})
