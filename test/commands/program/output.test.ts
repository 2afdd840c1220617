import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { expect, test } from 'vitest'
import { confirm } from '../../../src/cli/arguments/prompt.ts'
import { type Column, pluralize, type RenderOptions, render, wrapText } from '../../../src/cli/output/output.ts'
import { displayWidth } from '../../../src/cli/output/table.ts'
import { type ProgressState, startProgress } from '../../../src/cli/runtime/progress.ts'
import { hasProgram, run, runLineOnTerminal, runOnTerminal } from '../../support/processes/run.ts'

interface Item {
  id: string
  title: string
  size: number
  labels: string[]
  note: string | null
}

const columns: Column<Item>[] = [
  { name: 'id', show: 'wide' },
  { name: 'title' },
  { name: 'size', align: 'right' },
  { name: 'labels' },
  { name: 'note', title: 'REMARK', value: ({ note }) => note ?? '-' },
]
const items: Item[] = [
  { id: 'a', title: 'one\ttwo\n\u001b[31mred\u202e', size: 5, labels: ['x', 'y'], note: null },
  { id: 'b', title: 'say "hi", all', size: 12_000, labels: [], note: 'ok' },
]

const piped: RenderOptions = {
  format: 'tsv',
  isHuman: false,
  fields: null,
  header: null,
  isTerminal: false,
  width: Number.POSITIVE_INFINITY,
  color: false,
}
const list = (options: Partial<RenderOptions>, rows: Item[] = items) =>
  render(rows, { columns, sentence: 'two items' }, { ...piped, ...options })

test('tsv has a header on a terminal and with --header only', () => {
  const rows = 'one\\ttwo\\n\\x1b[31mred\\u202e\t5\tx,y\t-\nsay "hi", all\t12000\t\tok\n'
  expect(list({})).toBe(rows)
  expect(list({ isTerminal: true })).toBe(`TITLE\tSIZE\tLABELS\tREMARK\n${rows}`)
  expect(list({ header: true })).toBe(`TITLE\tSIZE\tLABELS\tREMARK\n${rows}`)
})

test('csv is RFC 4180 with a header', () => {
  expect(list({ format: 'csv' })).toBe('TITLE,SIZE,LABELS,REMARK\n"one\ttwo\n\\x1b[31mred\\u202e",5,"x,y",-\n"say ""hi"", all",12000,,ok\n')
  expect(list({ format: 'csv', header: false })).not.toContain('TITLE')
})

test('json and jsonl print the unchanged objects', () => {
  expect(JSON.parse(list({ format: 'json' }))).toEqual(items)
  expect(
    list({ format: 'jsonl' })
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line)),
  ).toEqual(items)
  expect(list({ format: 'json' }, [])).toBe('[]\n')
})

test('id prints one id per line', () => expect(list({ format: 'id' })).toBe('a\nb\n'))

test('table aligns columns; wide has more columns', () => {
  const [head, , second] = list({ format: 'table' }, [{ ...items[0]!, title: 't' }, items[1]!]).split('\n')
  expect(head).toBe('TITLE           SIZE  LABELS  REMARK')
  expect(second).toBe('say "hi", all  12000          ok')
  expect(list({ format: 'wide' })).toMatch(/^ID {2}TITLE/)
})

test.each([10, 25, 40])('no line is wider than a terminal of %i columns', (width) => {
  const wide = items.map((item) => ({ ...item, title: 'é発票 '.repeat(20) }))
  for (const line of list({ format: 'wide', isTerminal: true, width }, wide).split('\n'))
    expect([...line].length).toBeLessThanOrEqual(width)
})

test('one object is printed as one line per field', () => {
  const one = (options: Partial<RenderOptions>) => render(items[1]!, { columns }, { ...piped, ...options })
  expect(one({})).toBe('title\tsay "hi", all\nsize\t12000\nlabels\t\nnote\tok\n')
  expect(one({ format: 'table', isTerminal: true, width: 80 })).toBe('TITLE   say "hi", all\nSIZE    12000\nLABELS\nREMARK  ok\n')
  expect(JSON.parse(one({ format: 'json' }))).toEqual(items[1])
})

test('a long line is wrapped between words, aligned with its text', () => {
  expect(wrapText('ok    disk  65 GB for the data folder', 24, 12).split('\n')).toEqual([
    'ok    disk  65 GB for',
    '            the data',
    '            folder',
  ])
  expect([pluralize(1, 'finding'), pluralize(0, 'finding')]).toEqual(['1 finding', '0 findings'])
})

test('a sentence replaces the result only on a terminal without -o', () => {
  expect(list({ format: 'table', isTerminal: true, isHuman: true })).toBe('two items\n')
  expect(list({ format: 'table', isTerminal: true, width: 80 })).not.toContain('two items')
})

test('--fields selects and orders columns and JSON fields', () => {
  expect(list({ fields: ['size', 'id'] })).toBe('5\ta\n12000\tb\n')
  expect(JSON.parse(list({ format: 'json', fields: ['size', 'id'] }))).toEqual([
    { size: 5, id: 'a' },
    { size: 12_000, id: 'b' },
  ])
})

test('--fields with an unknown name lists the known ones', () => {
  expect(() => list({ fields: ['sise'] })).toThrow('unknown field sise; known are id, title, size, labels, note')
  expect(list({ fields: ['content'], format: 'json' }, [])).toBe('[]\n')
})

test('a pipe gets no colours, borders or headers', async () => {
  const formats = ['auto', 'table', 'wide', 'tsv', 'csv', 'json', 'jsonl', 'id']
  for (const { stdout, stderr } of await Promise.all(formats.map((format) => run(['config', 'show', 'server', '-o', format])))) {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: an escape character is what must not be there
    expect(stdout).not.toMatch(/\x1b|[─│┌]/)
    expect(stdout).toContain('server.port')
    expect(stderr).toBe('')
  }
  expect((await run(['config', 'show', 'server.port'])).stdout).toBe('server.port\t8080\n')
})

test.each([
  ['DMS_OUTPUT', { DMS_OUTPUT: 'jsonl' }, []],
  ['-o, which goes before DMS_OUTPUT,', { DMS_OUTPUT: 'csv' }, ['-o', 'jsonl']],
  ['a flag before the command', {}, []],
])('%s sets the format', async (name, env, args) => {
  const line = name.startsWith('a flag') ? ['-o', 'jsonl', 'config', 'show', 'server.port'] : ['config', 'show', 'server.port', ...args]
  expect(JSON.parse((await run(line, { env })).stdout)).toMatchObject({ key: 'server.port', value: 8080 })
})

test('--no-header omits the header', async () => {
  expect((await run(['config', 'show', 'server.port', '-o', 'csv', '--no-header'])).stdout).toBe('server.port,8080\n')
})

test('a table that does not fit cuts times first, then texts, then reduces times to dates, and ids last', () => {
  const rows = ['Minutes of the harbour board', 'Harbour fees'].map((title, index) => ({
    id: `01a1f973-04fd-738c-9b41-6e0d2f8a57c${index}`,
    title,
    label: null,
    size: 141_404,
    created_at: '2026-11-22T06:06:41.123Z',
  }))
  const named: Column<(typeof rows)[number]>[] = [
    { name: 'id' },
    { name: 'title' },
    { name: 'label' },
    { name: 'size', align: 'right' },
    { name: 'created_at', title: 'CREATED' },
  ]
  const id = rows[0]?.id
  const at = (width: number) => render(rows, { columns: named }, { ...piped, format: 'table', isTerminal: true, width }).split('\n')[1]
  expect(at(120)).toBe(`${id}  Minutes of the harbour board         141404  2026-11-22T06:06:41.123Z`)
  expect(at(100)).toBe(`${id}  Minutes of the harbour board         141404  2026-11-22T06:06Z`)
  expect(at(80)).toBe(`${id}  Minutes of…      141404  2026-11-22T06:06Z`)
  expect(at(75)).toBe(`${id}  Minutes o…      141404  2026-11-22`)
  expect(at(66)).toBe(`${id}  Min…      141404  2026-11-22`)
  expect(at(60)).toBe('01a1f973-04f…  Minutes of th…      141404  2026-11-22T06:06Z')
})

test('a wide table on a narrow terminal keeps all columns, shortened', () => {
  const names = ['one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine']
  const rows = [Object.fromEntries(names.map((name) => [name, `${name} `.repeat(9).trim()]))]
  for (const width of [40, 60, 80, 120]) {
    const lines = render(rows, { columns: names.map((name) => ({ name })) }, { ...piped, format: 'table', isTerminal: true, width })
      .trimEnd()
      .split('\n')
    expect(lines.map((line) => line.split(/ {2,}/).length)).toEqual([9, 9])
    for (const line of lines) expect(displayWidth(line)).toBeLessThanOrEqual(width)
  }
})

const onTerminal = test.skipIf(!hasProgram('script'))

onTerminal('on a terminal it is a table inside COLUMNS, with bold headings', async () => {
  const { stdout } = await runOnTerminal(['config', 'show', 'security', '--origin'], { env: { COLUMNS: '60' } })
  const [head = ''] = stdout.split('\n', 1)
  expect(head).not.toBe(stripVTControlCharacters(head))
  expect(stripVTControlCharacters(head)).toMatch(/^KEY +VALUE +ORIGIN$/)
  for (const line of stdout.split('\n').slice(1)) expect(line.length).toBeLessThanOrEqual(60)
})

onTerminal.each([
  ['NO_COLOR=1', { NO_COLOR: '1' }, []],
  ['TERM=dumb', { TERM: 'dumb' }, []],
  ['--no-color', {}, ['--no-color']],
  ['--color never', {}, ['--color', 'never']],
])('%s leaves no colour on a terminal', async (_, env, args) => {
  expect((await runOnTerminal(['config', 'show', 'server.port', ...args], { env })).stdout).toMatch(/^KEY +VALUE\nserver\.port +8080\n$/)
})

test('progress as JSON Lines: the first, the last, and at most two per second between', () => {
  let time = 0
  let written = ''
  const progress = startProgress(
    'upload',
    { progress: 'json', isQuiet: false },
    false,
    (text) => (written += text),
    () => time,
  )
  const states: ProgressState[] = Array.from({ length: 11 }, (_, done) => ({
    done,
    total: 10,
    bytes_done: done * 100,
    bytes_total: 1000,
    current: 'a.pdf',
  }))
  for (const state of states) {
    progress.update(state)
    time += 100
  }
  progress.done()
  const lines = written
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  expect(lines.map(({ done }) => done)).toEqual([0, 5, 10])
  expect(lines[1]).toEqual({
    type: 'progress',
    phase: 'upload',
    done: 5,
    total: 10,
    bytes_done: 500,
    bytes_total: 1000,
    rate_bytes: 1000,
    eta_seconds: 1,
    current: 'a.pdf',
  })
})

test('progress prints nothing off a terminal, and plain lines with --progress plain', () => {
  let written = ''
  const tell = (mode: 'auto' | 'plain') => {
    const progress = startProgress('upload', { progress: mode, isQuiet: false }, false, (text) => (written += text))
    progress.update({ done: 1, total: 4, current: 'odd\u001b.pdf' })
    progress.done()
  }
  tell('auto')
  expect(written).toBe('')
  tell('plain')
  expect(written).toBe('upload  1/4 (25 %)  odd\\x1b.pdf\n')
})

test('SIGUSR1 prints the progress at once, in the chosen form, also with --progress none', () => {
  let written = ''
  const start = (progress: 'none' | 'json', isQuiet: boolean) =>
    startProgress('upload', { progress, isQuiet }, false, (text) => (written += text))
  const silent = start('none', true)
  silent.print()
  silent.update({ done: 3, total: 4 })
  silent.print()
  silent.done()
  expect(written).toBe('upload  0\nupload  3/4 (75 %)\n')
  written = ''
  const json = start('json', false)
  json.update({ done: 1, total: 4 })
  json.update({ done: 2, total: 4 })
  json.print()
  expect(written.split('\n').map((line) => line && JSON.parse(line).done)).toEqual([1, 2, ''])
})

test('a question without a terminal is a usage error that names the flag', async () => {
  await expect(confirm({ canPrompt: false }, 'Delete 3 documents?', '--yes')).rejects.toMatchObject({ exit: 'USAGE', fix: 'pass --yes' })
})

/** Runs a program on a terminal, with `parts` of src/cli imported; its standard output goes to a file. `size` sets the terminal's. */
async function runSnippet(parts: string, code: string, { reply, size = '' }: { reply?: { to: string; type: string }; size?: string } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'dms-snippet-'))
  try {
    const program = join(folder, 'snippet.ts')
    writeFileSync(program, `import * as parts from '${new URL(`../../../src/cli/${parts}.ts`, import.meta.url).pathname}'\n${code}`)
    const { stdout } = await runLineOnTerminal(`${size} '${process.execPath}' '${program}' > '${folder}/stdout'`, {
      reply,
      timeout: 10_000,
    })
    return { screen: stripVTControlCharacters(stdout), stdout: readFileSync(join(folder, 'stdout'), 'utf8') }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

onTerminal.each([
  ['yes goes on', 'y\n', /^went on$/],
  ['no is a failure', 'n\n', /^Failure nothing was changed$/],
  ['Enter alone is no', '\n', /^Failure nothing was changed$/],
  ['Ctrl-C is not an answer', '\u0003', /^ExitPromptError /],
])('a question is on standard error: %s', async (_, type, said) => {
  const ask = `await parts.confirm({ canPrompt: true }, 'Delete 3 documents?', '--yes').then(
  () => process.stdout.write('went on'), (error) => process.stdout.write(error.name + ' ' + error.message))`
  const { screen, stdout } = await runSnippet('arguments/prompt', ask, { reply: { to: '(y/N)', type } })
  expect(screen).toContain('Delete 3 documents?')
  expect(stdout).toMatch(said)
})

onTerminal('a password is not seen while it is typed, and nothing offers to show it', async () => {
  // Ctrl-T toggles visibility in inquirer.
  const ask = "process.stdout.write(await parts.promptPassword({ canPrompt: true }, 'Password', '--password-stdin'))"
  const { screen, stdout } = await runSnippet('arguments/prompt', ask, { reply: { to: 'Password', type: 'sec\u0014ret\n' } })
  expect(screen).toContain('Password')
  expect(screen).not.toMatch(/ctrl|toggle|visib|sec|ret/i)
  expect(stdout).toBe('secret')
})

onTerminal('on a terminal progress is a spinner, which is gone at the end; without a size of the terminal it is left out', async () => {
  const code = `const terminal = { env: {}, stdin: process.stdin, stdout: process.stdout, stderr: process.stderr }
const cli = parts.createCli({ opts: () => ({}) }, terminal)
const progress = cli.progress('upload')
progress.update({ done: 1, total: 4 })
await new Promise((resolve) => setTimeout(resolve, 500))
progress.done()
cli.warn('the end')
await cli.close()`
  const { screen, stdout } = await runSnippet('runtime/context', code, { size: 'stty cols 80 rows 24;' })
  expect(screen).toMatch(/upload {2}1\/4 \(25 %\).*the end\n$/s)
  expect(stdout).toBe('')
  expect((await runSnippet('runtime/context', code)).screen).toBe('the end\n')
})
