import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { cliTransports, readBatch, startCli } from '../../support/cli-transports.ts'
import { registerIdleWorker } from '../../support/idle-worker.ts'
import { bareEnvironment, executable, hasProgram, runOnTerminal } from '../../support/processes/run.ts'
import { runHere } from '../../support/processes/run-here.ts'

const sha256 = (bytes: string | Buffer) => createHash('sha256').update(bytes).digest('hex')
const nowhere = '01900000-0000-7000-8000-000000000000'

describe.each(cliTransports)('%s:', (transport) => {
  test('upload: items and summary; equal bytes are unchanged, or a new document with --on-duplicate upload', async () => {
    const { dms, folder, asAda } = await startCli(transport)
    const [one, two] = [join(folder, 'Été 1.txt'), join(folder, 'two.txt')]
    await writeFile(one, 'first')
    await writeFile(two, 'second')
    const first = await dms(['documents', 'upload', one, two, '-o', 'jsonl', '--concurrency', '1'])
    expect([first.code, first.stderr]).toEqual([0, ''])
    const { items, summary } = readBatch(first.stdout)
    expect(items).toEqual([
      { type: 'item', action: 'created', key: one, id: expect.any(String), bytes: 5 },
      { type: 'item', action: 'created', key: two, id: expect.any(String), bytes: 6 },
    ])
    expect(summary).toMatchObject({ command: 'documents upload', total: 2, created: 2, failed: 0, bytes: 11, exit_code: 0 })
    expect(await asAda.documents.get(String(items[0]?.id))).toMatchObject({ filename: 'Été 1.txt', title: 'Été 1', owner: 'ada' })

    const again = await dms(['documents', 'upload', one, '--json'])
    expect(JSON.parse(again.stdout)).toMatchObject({ unchanged: 1, created: 0, items: [{ action: 'unchanged', id: items[0]?.id }] })
    const flags = ['--title', 'One', '--metadata', 'year=2024']
    const ignored = '--title, --metadata: only for new documents, not for the unchanged (1); fix: dms documents update\n'
    expect((await dms(['documents', 'upload', one, ...flags])).stderr).toBe(ignored)
    expect((await dms(['documents', 'upload', one, ...flags, '-n'])).stderr).toBe(`dry run: nothing was changed\n${ignored}`)
    expect((await dms(['documents', 'upload', one, ...flags, '-q'])).stderr).toBe('')
    const copy = await dms(['documents', 'upload', one, '--on-duplicate', 'upload', '-o', 'id'])
    expect(await asAda.documents.get(copy.stdout.trim())).toMatchObject({ duplicate_of: items[0]?.id })
  })

  test('upload: title, labels, language, --no-ocr, --owner', async () => {
    const { dms, folder, asAdmin, admin, envOf } = await startCli(transport)
    for (const name of ['Contracts', 'Paid']) await asAdmin.call('POST', '/api/labels', { name, color: '#336699' })
    const file = join(folder, 'x.txt')
    await writeFile(file, 'text')
    const options = ['--title', 'A title', '--label', 'contracts,PAID', '--no-ocr', '--language', 'eng', '--owner', 'bob', '-o', 'id']
    const { code, stdout } = await dms(['documents', 'upload', file, ...options], { env: await envOf(admin) })
    expect(code).toBe(0)
    expect(await asAdmin.documents.get(stdout.trim())).toMatchObject({
      title: 'A title',
      labels: ['Contracts', 'Paid'],
      owner: 'bob',
      language: 'eng',
    })
    expect((await asAdmin.call<{ data: unknown[] }>('GET', '/api/ocr/queue')).data).toEqual([])
    expect((await dms(['documents', 'upload', file, '--owner', 'bob'])).code).toBe(5)
    for (const more of [[], ['-n'], [file], ['--on-duplicate', 'upload']])
      expect(await dms(['documents', 'upload', file, '--owner', 'nope', ...more], { env: await envOf(admin) }), more.join(' ')).toEqual({
        ...{ code: 6, signal: null, stdout: '' },
        stderr: 'error: no user "nope"\n',
      })
  })

  test('upload: a bad file fails alone; a bad option fails the command', async () => {
    const { dms, folder } = await startCli(transport)
    const [good, empty, gone] = [join(folder, 'good.txt'), join(folder, 'empty.txt'), join(folder, 'gone.txt')]
    await writeFile(good, 'good')
    await writeFile(empty, '')
    const mixed = await dms(['documents', 'upload', empty, good, gone, '-o', 'jsonl', '--concurrency', '1'])
    expect(mixed.code).toBe(3)
    expect(readBatch(mixed.stdout).items).toMatchObject([
      { action: 'failed', key: empty, error: { code: 'VALIDATION_ERROR', message: 'the file is empty' } },
      { action: 'created', key: good },
      { action: 'failed', key: gone, error: { code: 'ENOENT', message: `${gone}: no such file or directory` } },
    ])
    expect((await dms(['documents', 'upload', gone])).code).toBe(1)
    expect(await dms(['documents', 'upload', good, ''])).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining('path: the value is empty'),
    })
    const label = await dms(['documents', 'upload', good, '--label', 'no such'])
    expect(label).toMatchObject({
      code: 6,
      stdout: '',
      stderr: expect.stringContaining("fix: dms labels create 'no such', or one of: dms labels list\n"),
    })
    // It would wait for files otherwise.
    const watch = await dms(['documents', 'watch', folder, '--label', 'no such'])
    expect(watch).toMatchObject({
      code: 6,
      stdout: '',
      stderr: expect.stringContaining("fix: dms labels create 'no such', or one of: dms labels list\n"),
    })
  })

  test('upload: names with percent signs and quotes stay as they are', async () => {
    const { dms, folder, asAda } = await startCli(transport)
    const names = ['a%22b.txt', '100% "c".txt', '%2522%252522%0A.txt', '%20%41.txt']
    for (const name of names) await writeFile(join(folder, name), name)
    const { code, stdout } = await dms(['documents', 'upload', '-r', folder, '-o', 'id'])
    expect(code).toBe(0)
    const stored = await Promise.all(
      stdout
        .trim()
        .split('\n')
        .map(async (id) => (await asAda.documents.get(id)).filename),
    )
    expect(stored.sort()).toEqual([...names].sort())
  })

  test('upload: control characters in a name become _', async () => {
    const { dms, folder, asAda } = await startCli(transport)
    const name = join(folder, 'a\tb\u001b[1m\u0001\u007f.txt')
    await writeFile(name, 'escape')
    const { code, stdout } = await dms(['documents', 'upload', name, '-o', 'id'])
    expect(code).toBe(0)
    expect((await asAda.documents.get(stdout.trim())).filename).toBe('a_b_[1m__.txt')
  })

  test('upload: from a pipe, and from a list of paths', async () => {
    const { dms, folder, asAda } = await startCli(transport)
    const piped = await dms(['documents', 'upload', '-', '--stdin-name', 'a/b/pipe.txt', '-o', 'id'], { input: 'piped' })
    expect(await asAda.documents.get(piped.stdout.trim())).toMatchObject({ filename: 'pipe.txt', sha256: sha256('piped') })
    const odd = join(folder, 'new\nline.txt')
    await writeFile(odd, 'odd')
    const listed = await dms(['documents', 'upload', '--files-from', '-', '-0', '--json'], { input: `${odd}\0` })
    expect(JSON.parse(listed.stdout).items).toMatchObject([{ action: 'created', key: odd }])
  })

  test('upload --wait returns after OCR and indexing; 3 if OCR failed', async () => {
    const { app, dms, folder, asAda, env, runJobs } = await startCli(transport)
    const [text, broken] = [join(folder, 'text.txt'), join(folder, 'broken.pdf')]
    await writeFile(text, 'a needle in here')
    await writeFile(broken, '%PDF-1.7\nnothing of a PDF follows')
    // The workers of runJobs() come and go.
    if (env.DMS_URL) await registerIdleWorker(app, ['ocr', 'index'])
    const others = env.DMS_URL ? setInterval(() => void runJobs(), 1000) : undefined
    const { code, stdout, stderr } = await dms(['documents', 'upload', text, broken, '--wait', '-o', 'jsonl'])
    clearInterval(others)
    const { items, summary } = readBatch(stdout)
    expect(items).toHaveLength(2)
    expect(items.find(({ key }) => key === text)).toMatchObject({ action: 'created', status: 'completed', id: expect.any(String) })
    expect(items.find(({ key }) => key === broken)).toMatchObject({
      action: 'failed',
      status: 'failed',
      error: { code: expect.any(String) },
    })
    expect([code, summary?.exit_code]).toEqual([3, 3])
    if (transport === 'local') {
      expect(stderr).toContain('this process runs OCR')
      expect(await asAda.call<{ total: number }>('GET', '/api/search?q=needle')).toMatchObject({ total: 1 })
    }
  })

  test('upload: SIGINT exits 130 after the current file, with the summary; the next run sends the rest', async () => {
    const { folder, env, dms } = await startCli(transport)
    const count = 80
    for (let index = 0; index < count; index++) await writeFile(join(folder, `${index}.txt`), `number ${index}`)
    const args = [executable, 'documents', 'upload', '-r', folder, '-o', 'jsonl', '--concurrency', '1']
    const child = spawn(process.execPath, args, { env: bareEnvironment(env) })
    let stdout = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      if (stdout === '') child.kill('SIGINT')
      stdout += text
    })
    const code = await new Promise((resolve) => child.on('close', resolve))
    const { summary } = readBatch(stdout)
    expect([code, summary?.exit_code]).toEqual([130, 130])
    expect(summary?.created).toBeGreaterThan(0)
    expect(summary?.created).toBeLessThan(count)
    const rest = JSON.parse((await dms(['documents', 'upload', '-r', folder, '--json'])).stdout)
    expect([rest.unchanged, rest.created]).toEqual([summary?.created, count - Number(summary?.created)])
  })
})

test('upload -r: --include and --exclude; skips hidden files and symbolic links', async () => {
  const { dms, folder } = await startCli('local')
  for (const name of ['in/sub', 'in/drafts', 'in/.git']) await mkdir(join(folder, name), { recursive: true })
  for (const name of ['a.pdf', 'b.txt', 'sub/c.PDF', 'sub/d.pdf', 'drafts/e.pdf', '.hidden.pdf', '.git/f.pdf'])
    await writeFile(join(folder, 'in', name), name)
  await symlink(join(folder, 'in'), join(folder, 'in/loop'))
  await symlink(join(folder, 'in/b.txt'), join(folder, 'in/link.txt'))
  const found = async (...args: string[]) => {
    const { stdout } = await dms(['documents', 'upload', '-n', '--json', ...args])
    const { dry_run, items } = JSON.parse(stdout)
    expect(dry_run).toBe(true)
    return items.map(({ key }: { key: string }) => key.slice(folder.length + 1))
  }
  const all = ['in/a.pdf', 'in/b.txt', 'in/drafts/e.pdf', 'in/sub/c.PDF', 'in/sub/d.pdf']
  expect(await found('-r', join(folder, 'in'))).toEqual(all)
  expect(await found('-r', join(folder, 'in'), '--follow-symlinks')).toEqual([...all, 'in/link.txt'].sort())
  expect(await found('-r', join(folder, 'in'), '--include', '*.pdf', '--exclude', 'drafts')).toEqual(['in/a.pdf', 'in/sub/d.pdf'])
  expect(await found('-r', join(folder, 'in'), '--include', 'sub/*')).toEqual(['in/sub/c.PDF', 'in/sub/d.pdf'])
  expect((await dms(['documents', 'list', '-o', 'id'])).stdout).toBe('')
})

test.each([
  [['documents', 'upload']],
  [['documents', 'upload', tmpdir()]],
  [['documents', 'upload', '-']],
  [['documents', 'upload', 'a', 'b', '--title', 'x']],
  [['documents', 'upload', 'a', '--concurrency', '0']],
  [['documents', 'upload', 'a', '--label', 'inbox', '--label', '']],
  [['documents', 'watch', '.', '--label', ' ,']],
  [['documents', 'update', nowhere, '--add-label', '']],
  [['documents', 'update', nowhere, '--title', 'x', '--remove-label', '']],
  [['documents', 'upload', '--files-from', '/nonexistent/list']],
  [['documents', 'upload', '-', '--files-from', '-', '--stdin-name', 'x']],
  [['documents', 'upload', '-', '--stdin-name', '']],
  [['documents', 'replace', nowhere, '-', '--stdin-name', '']],
  [['documents', 'export', '--to', join(tmpdir(), 'all.tar.gz')]],
  [['documents', 'export', '--to', join(tmpdir(), 'all.ZIP')]],
  [['documents', 'list', '--limit', '0']],
  [['documents', 'list', '--since', 'soon']],
  [['documents', 'download', nowhere, '--clobber', '--skip-existing']],
  [['documents', 'download', nowhere, nowhere.replace('1', '2'), '--to', '-']],
])('2 for %j', async (args) => {
  expect(await runHere(args, { env: { DMS_URL: 'http://127.0.0.1:9' } })).toMatchObject({ code: 2, stdout: '' })
})

test('69 without further attempts once the server is unreachable', async () => {
  const { folder } = await startCli('local')
  await writeFile(join(folder, 'a'), 'a')
  const { code, stdout, stderr } = await runHere(['documents', 'upload', '-r', folder, '--json'], {
    env: { DMS_URL: 'http://127.0.0.1:9' },
  })
  expect([code, stdout]).toEqual([69, ''])
  expect(JSON.parse(stderr)).toMatchObject({ exit_code: 69 })
})

test('2 with a fix for an upload or a source of the operator without an admin; 6 for an unknown owner', async () => {
  const { folder, databaseUrl, dataDir } = await startCli('local')
  await writeFile(join(folder, 'a'), 'a')
  const env = { DATABASE_URL: databaseUrl, DMS_DATA_DIR: dataDir }
  for (const args of [
    ['documents', 'upload', join(folder, 'a')],
    ['documents', 'upload', join(folder, 'a'), '-n'],
    ['sources', 'add', '--name', 's', '--address', 'https://cloud.example.org/dav/', '--username', 'u'],
  ]) {
    const fix = 'error: the documents have no owner: no user "admin"\n         fix: pass --owner USER, or set auth.admin_username\n'
    expect([args, await runHere(args, { env })]).toMatchObject([args, { code: 2, stdout: '', stderr: fix }])
    expect([args, await runHere([...args, '--owner', 'nobody'], { env })]).toMatchObject([
      args,
      { code: 6, stderr: 'error: no user "nobody"\n' },
    ])
  }
})

test.runIf(hasProgram('script'))(
  'on a terminal: a sentence and progress for an upload, no bytes of a download, a question before a deletion',
  async () => {
    const { folder, env, asAda } = await startCli('local')
    await writeFile(join(folder, 'a.txt'), '\u001b[31mred')
    const uploaded = await runOnTerminal(['documents', 'upload', join(folder, 'a.txt'), '--wait'], { env })
    expect(uploaded.code).toBe(0)
    expect(uploaded.stdout).toContain('created 1')
    const [document] = (await asAda.call<{ data: { id: string }[] }>('GET', '/api/documents')).data
    const id = document?.id ?? ''
    // A shortened id would be useless: no command accepts one.
    const listed = await runOnTerminal(['documents', 'list'], { env: { ...env, COLUMNS: '80' } })
    expect(listed.stdout).toContain(`\n${id}  a  `)
    expect(listed.stdout).toMatch(/ \d{4}-\d\d-\d\d\n$/)
    const text = await runOnTerminal(['documents', 'text', id], { env })
    expect(text.stdout).not.toContain('\u001b[31m')
    expect(await runOnTerminal(['documents', 'download', id, '--to', '-'], { env })).toMatchObject({ code: 2 })
    const no = await runOnTerminal(['documents', 'delete', id, '--permanent'], { env, reply: { to: 'permanently?', type: 'n\r' } })
    expect(no).toMatchObject({ code: 1, stdout: expect.stringContaining('nothing was changed') })
    const yes = await runOnTerminal(['documents', 'delete', id, '--permanent'], { env, reply: { to: 'permanently?', type: 'y\r' } })
    expect(yes).toMatchObject({ code: 0, stdout: expect.stringContaining('deleted 1') })
  },
)
