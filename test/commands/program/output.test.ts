import { EventEmitter } from 'node:events'
import { stripVTControlCharacters } from 'node:util'
import { expect, onTestFinished, test, vi } from 'vitest'
import { writeJsonObject } from '../../../src/cli/output/json-array.ts'
import { printList } from '../../../src/cli/output/listing.ts'
import { type Column, pluralize, type RenderOptions, render, type Shape, wrapText } from '../../../src/cli/output/output.ts'
import { displayWidth } from '../../../src/cli/output/table.ts'
import type { Cli } from '../../../src/cli/runtime/context.ts'
import { hasProgram, run, runOnTerminal } from '../../support/processes/run.ts'
import { runHere } from '../../support/processes/run-here.ts'

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

test.each(['tsv', 'csv', 'json', 'jsonl', 'id'] as const)('a list as %s is printed row by row, with one header', async (format) => {
  const options = { ...piped, format, header: format === 'tsv' || format === 'csv' ? true : null }
  const whole = render(items, { columns }, options)
  const printed: string[] = []
  const cli = {
    options: { ...options, verbose: 0 },
    print: (rows: readonly Item[], shape: Shape<Item>) => void printed.push(render(rows, shape, options)),
    write: (text: string) => void printed.push(text),
  } as unknown as Cli
  async function* rows() {
    for (const [index, item] of items.entries()) {
      expect(printed).toHaveLength(index)
      yield item
    }
  }
  await printList(cli, rows(), Number.POSITIVE_INFINITY, { columns })
  expect(printed.join('')).toBe(whole)
})

test('a list waits for a reader that has not taken what was printed', async () => {
  const stdout = Object.assign(new EventEmitter(), { writableLength: 2 << 20, writableNeedDrain: true })
  vi.stubGlobal('process', Object.create(process, { stdout: { value: stdout } }))
  onTestFinished(() => void vi.unstubAllGlobals())
  let taken = 0
  async function* rows() {
    for (const item of items) {
      taken++
      yield item
    }
  }
  const cli = { options: { ...piped, format: 'jsonl', verbose: 0 }, print() {} } as unknown as Cli
  const printed = printList(cli, rows(), 50, { columns })
  await new Promise((resolve) => setTimeout(resolve, 50))
  expect(taken).toBe(1)
  stdout.writableLength = 0
  stdout.emit('drain')
  await printed
  expect(taken).toBe(2)
})

test('a list as json: an empty one, and 2 for an unknown field', async () => {
  const printed: string[] = []
  const cli = { options: { ...piped, format: 'json', fields: ['nope'], verbose: 0 }, write: (text: string) => void printed.push(text) }
  async function* rows(...some: Item[]) {
    yield* some
  }
  await printList(cli as unknown as Cli, rows(), 50, { columns })
  expect(printed.join('')).toBe('[]\n')
  await expect(printList(cli as unknown as Cli, rows(...items), 50, { columns })).rejects.toMatchObject({ exit: 'USAGE' })
})

test.each([0, 1, 3])('an object with an array of %i is written value by value, as JSON.stringify() would write it', (count) => {
  const values = Array.from({ length: count }, (_, index) => ({ name: `a\n"${index}"`, labels: ['x'], none: {} }))
  const written: string[] = []
  writeJsonObject((text) => void written.push(text), { type: 'summary', total: count }, 'items', values)
  expect(written.join('')).toBe(`${JSON.stringify({ type: 'summary', total: count, items: values }, null, 2)}\n`)
  expect(written.filter((text) => text.includes('"name"'))).toHaveLength(count)
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

test.each(['❤️ heart', '1️⃣ one', '🎉 party', '発票 two'])('a cell that fits is not cut: %s', (title) => {
  const rows = [{ ...items[0]!, title, note: 'next' }]
  const [, row = ''] = list({ format: 'table', fields: ['title', 'note'] }, rows).split('\n')
  expect(row).toBe(`${title}  next`)
})

test.each([
  ['กฎหมายที่ดินและน้ำ', 14, 'กฎ'],
  ['हिन्दी में दस्तावेज़', 14, 'हि'],
  ['שָׁלוֹם עוֹלָם', 9, 'שָׁל'],
  ['re\u0301sume\u0301', 6, 're\u0301'],
])('columns after %s are aligned, and it is cut after a letter', (title, width, start) => {
  const rows = [title, 'x'.repeat(width)].map((each) => ({ ...items[0]!, title: each, note: 'next' }))
  const at = (terminal: number) => list({ format: 'table', fields: ['title', 'note'], width: terminal }, rows).split('\n')
  expect(at(Number.POSITIVE_INFINITY).slice(1, 3)).toEqual([`${title}  next`, `${'x'.repeat(width)}  next`])
  expect(at(9)[1]).toBe(`${start}…  next`)
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

test.each([
  ['help exit-codes', ['-o csv', '-o table', '--fields text', '--header']],
  ['config env', ['-o tsv', '-o id', '--fields name', '--no-header']],
  ['api GET /api/settings', ['-o csv', '-o jsonl', '--fields theme', '--json --fields theme', '--header']],
  ['documents text 01234567-89ab-7def-8123-456789abcdef', ['-o csv', '--fields content']],
  ['metrics prometheus', ['-o csv', '--fields text']],
  ['settings get theme', ['-o csv', '--fields theme']],
  ['tokens create a --scope read', ['-o csv', '-o id', '--fields token']],
  ['users token ana', ['-o csv', '-o id', '--fields token']],
  ['users export', ['-o tsv', '-o id', '--fields email']],
  ['audit export', ['-o csv', '-o table', '--header']],
  ['events tail', ['-o csv', '--no-header']],
  ['completion bash', ['-o csv', '--fields name', '--header']],
  ['serve', ['-o csv', '--fields name', '--no-header']],
  ['worker --once', ['-o id', '--fields name']],
  ['users list', ['-o id --fields email']],
  ['login https://dms.example.org --no-store', ['-o csv', '--fields token']],
])('2 for output flags that %s would ignore, before it does anything', async (line, flags) => {
  for (const flag of flags)
    expect(await runHere([...line.split(' '), ...flag.split(' ')]), flag).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining(' has no effect: '),
    })
})

const onTerminal = test.skipIf(!hasProgram('script'))

onTerminal('on a terminal it is a table inside COLUMNS, with bold headings', async () => {
  const { stdout } = await runOnTerminal(['config', 'show', 'security', '--origin'], { env: { COLUMNS: '60' } })
  const [head = ''] = stdout.split('\n', 1)
  expect(head).not.toBe(stripVTControlCharacters(head))
  expect(stripVTControlCharacters(head)).toMatch(/^KEY +VALUE +ORIGIN$/)
  for (const line of stdout.split('\n').slice(1)) expect(line.length).toBeLessThanOrEqual(60)
})

onTerminal.each(['-5', '0', 'wide'])('COLUMNS=%s is ignored', async (COLUMNS) => {
  expect((await runOnTerminal(['config', 'show', 'server.port'], { env: { COLUMNS } })).stdout).toContain('server.port  8080\n')
})

onTerminal.each([
  ['NO_COLOR=1', { NO_COLOR: '1' }, []],
  ['TERM=dumb', { TERM: 'dumb' }, []],
  ['--no-color', {}, ['--no-color']],
  ['--color never', {}, ['--color', 'never']],
])('%s leaves no colour on a terminal', async (_, env, args) => {
  expect((await runOnTerminal(['config', 'show', 'server.port', ...args], { env })).stdout).toMatch(/^KEY +VALUE\nserver\.port +8080\n$/)
})
