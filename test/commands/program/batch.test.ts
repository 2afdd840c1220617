import { expect, test } from 'vitest'
import { startBatch } from '../../../src/cli/output/batch-output.ts'
import { startFindings } from '../../../src/cli/output/findings.ts'
import { type Format, type RenderOptions, render } from '../../../src/cli/output/output.ts'
import type { Cli } from '../../../src/cli/runtime/context.ts'
import { escapeControls } from '../../../src/log/escape.ts'

type Asked = Partial<Pick<RenderOptions, 'isHuman' | 'fields' | 'header'>> & { isEndless?: boolean; isSilent?: boolean; isDryRun?: boolean }

/** Runs a batch of `items` in a format and returns its output. */
function runBatch(
  format: Format,
  actions: readonly string[],
  { isHuman = false, isEndless = false, isDryRun = false, ...asked }: Asked = {},
) {
  const said = { stdout: '', stderr: '' }
  const width = Number.POSITIVE_INFINITY
  const rendering = {
    format,
    isHuman,
    fields: null,
    header: null,
    isTerminal: isHuman,
    width,
    color: false,
    isJson: format.startsWith('json'),
    ...asked,
  }
  const cli = {
    options: rendering,
    exit: 'OK',
    print: (result: object, shape: Parameters<typeof render>[1]) => (said.stdout += render(result, shape, rendering)),
    write: (text: string) => (said.stdout += text),
    note: (text: string) => (said.stderr += `${text}\n`),
    warn: (text: string) => (said.stderr += `${escapeControls(text)}\n`),
  } as unknown as Cli
  let time = Date.parse('2026-01-02T03:04:05Z')
  const now = () => {
    time += 1000
    return new Date(time)
  }
  const batch = startBatch(cli, 'users import', { now, isEndless, isDryRun })
  for (const [index, action] of actions.entries()) {
    const isFailed = action === 'failed'
    batch.add({
      action,
      key: `row ${index}`,
      id: isFailed ? null : `u${index}`,
      ...(isFailed ? { error: { code: 'VALIDATION_ERROR', message: 'bad\nrow' } } : {}),
    })
  }
  batch.finish({ source: 'staff.csv' })
  return { ...said, exit: cli.exit }
}

const mixed = ['created', 'failed', 'unchanged']
const summary = {
  type: 'summary',
  command: 'users import',
  error: null,
  dry_run: false,
  total: 3,
  created: 1,
  updated: 0,
  unchanged: 1,
  skipped: 0,
  failed: 1,
  bytes: 0,
  source: 'staff.csv',
  started_at: '2026-01-02T03:04:06.000Z',
  finished_at: '2026-01-02T03:04:07.000Z',
  duration_seconds: 1,
  exit_code: 3,
}
const item = { type: 'item', action: 'failed', key: 'row 1', id: null, error: { code: 'VALIDATION_ERROR', message: 'bad\nrow' } }

test('a dry run says so: in the sentence or the summary, else on standard error', () => {
  const note = 'dry run: nothing was changed\n'
  for (const format of ['tsv', 'csv', 'table', 'id'] as const) expect(runBatch(format, ['created'], { isDryRun: true }).stderr).toBe(note)
  for (const format of ['json', 'jsonl'] as const) {
    const { stdout, stderr } = runBatch(format, ['created'], { isDryRun: true })
    expect([stderr, /"dry_run": ?true/.test(stdout)]).toEqual(['', true])
  }
  const { stdout, stderr } = runBatch('table', ['created'], { isDryRun: true, isHuman: true })
  expect([stderr, stdout]).toEqual(['', expect.stringMatching(/^would be: created 1 /)])
  expect(runBatch('tsv', ['created']).stderr).toBe('')
})

test('jsonl streams the items and ends with one summary', () => {
  const { stdout, exit } = runBatch('jsonl', mixed)
  const lines = stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  expect(lines).toHaveLength(4)
  expect(lines[1]).toEqual(item)
  expect(lines[3]).toEqual(summary)
  expect(exit).toBe('PARTIAL')
})

test('json is the summary with the items inside', () => {
  const { type: _, ...inside } = item
  const { stdout } = runBatch('json', mixed)
  expect(JSON.parse(stdout)).toEqual({ ...summary, items: [expect.anything(), inside, expect.anything()] })
  expect(stdout).toBe(`${JSON.stringify(JSON.parse(stdout), null, 2)}\n`)
})

test('id prints existing items; failures go to standard error', () => {
  expect(runBatch('id', mixed)).toEqual({ stdout: 'u0\nu2\n', stderr: 'row 1: bad\\nrow\n', exit: 'PARTIAL' })
})

test('--fields selects fields of the items, also missing ones; the summary stays complete', () => {
  const fields = ['key', 'bytes', 'error']
  const inside = { key: 'row 1', bytes: null, error: item.error }
  expect(JSON.parse(runBatch('json', mixed, { fields }).stdout)).toEqual({
    ...summary,
    items: [expect.anything(), inside, expect.anything()],
  })
  expect(JSON.parse(runBatch('jsonl', mixed, { fields }).stdout.split('\n')[1] ?? '')).toEqual(inside)
  expect(runBatch('tsv', mixed, { fields }).stdout).toBe('row 0\t\t\nrow 1\t\tbad\\nrow\nrow 2\t\t\n')
  expect(() => runBatch('tsv', [], { fields: ['key', 'nothing'] })).toThrow('unknown field nothing; known are action, key')
})

test('--header prints one header line', () => {
  expect(runBatch('tsv', ['created', 'created'], { header: true }).stdout).toBe(
    'ACTION\tKEY\tID\tERROR\ncreated\trow 0\tu0\t\ncreated\trow 1\tu1\t\n',
  )
  expect(runBatch('tsv', [], { header: true }).stdout).toBe('ACTION\tKEY\tID\tERROR\n')
})

test('an endless batch prints JSON Lines, also with -o json', () => {
  expect(runBatch('json', mixed, { isEndless: true }).stdout).toBe(runBatch('jsonl', mixed).stdout)
})

test('interrupted findings keep the exit code of the interruption', () => {
  let said = ''
  const cli = {
    options: { format: 'json', isHuman: false, fields: ['sha256'] },
    exit: 'TERMINATED',
    write: (text: string) => (said += text),
  }
  const findings = startFindings(cli as unknown as Cli, 'check', [{ name: 'sha256' }], String)
  findings.add({ document_id: 'd1' })
  findings.finish()
  expect(JSON.parse(said)).toMatchObject({ findings: 1, exit_code: 143, items: [{ sha256: null }] })
})

test('tsv prints one line per item', () => {
  expect(runBatch('tsv', mixed).stdout).toBe('created\trow 0\tu0\t\nfailed\trow 1\t\tbad\\nrow\nunchanged\trow 2\tu2\t\n')
})

test.each(['tsv', 'table'] as const)('with -q only failures are printed, to standard error (%s)', (format) => {
  const isHuman = format === 'table'
  expect(runBatch(format, mixed, { isSilent: true, isHuman })).toEqual({ stdout: '', stderr: 'row 1: bad\\nrow\n', exit: 'PARTIAL' })
  expect(runBatch(format, ['created'], { isSilent: true, isHuman })).toEqual({ stdout: '', stderr: '', exit: 'OK' })
})

test.each(['tsv', 'csv', 'table'] as const)(
  '%s rows of failed items go to standard output, their errors also to standard error',
  (format) => {
    expect(runBatch(format, mixed)).toMatchObject({ stdout: expect.stringContaining('row 1'), stderr: 'row 1: bad\\nrow\n' })
  },
)

test('a terminal gets one sentence and the failures', () => {
  expect(runBatch('table', mixed, { isHuman: true })).toMatchObject({
    stdout: 'created 1 · unchanged 1 · failed 1     1.0 s\n',
    stderr: 'row 1: bad\\nrow\n',
  })
})

test('0 if every item succeeded or there was none; 1 if all failed', () => {
  expect(runBatch('tsv', ['created', 'skipped']).exit).toBe('OK')
  expect(runBatch('tsv', []).exit).toBe('OK')
  expect(runBatch('tsv', ['failed', 'failed']).exit).toBe('FAILED')
})
