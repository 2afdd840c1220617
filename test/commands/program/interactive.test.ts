import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { expect, test } from 'vitest'
import { confirm } from '../../../src/cli/arguments/prompt.ts'
import { type ProgressState, startProgress } from '../../../src/cli/runtime/progress.ts'
import { hasProgram, runLineOnTerminal } from '../../support/processes/run.ts'

const onTerminal = test.skipIf(!hasProgram('script'))

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

test('plain progress has bytes, rate and remaining time of the last seconds', () => {
  let time = 0
  const written: string[] = []
  const options = { progress: 'plain', isQuiet: false } as const
  const progress = startProgress(
    'upload',
    options,
    false,
    (text) => written.push(text),
    () => time,
  )
  const update = (seconds: number, done: number, megabytes: number) => {
    time = seconds * 1000
    progress.update({ done, total: 764, bytes_done: megabytes * 1e6, bytes_total: 2.4e9, current: 'b.pdf' })
  }
  update(0, 0, 0)
  for (let seconds = 1; seconds <= 100; seconds++) update(seconds, seconds * 5, seconds * 16)
  expect(written[0]).toBe('upload  0/764 (0 %)  0.0/2.4 GB  b.pdf\n')
  expect(written.at(-1)).toBe('upload  500/764 (66 %)  1.6/2.4 GB  16.0 MB/s  ETA 50s  b.pdf\n')
  for (let seconds = 101; seconds <= 120; seconds++) update(seconds, 500, 1600 + (seconds - 100) * 2)
  expect(written.at(-1)).toBe('upload  500/764 (68 %)  1.6/2.4 GB  2.0 MB/s  ETA 6m20s  b.pdf\n')
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
  await expect(confirm({ canPrompt: false }, 'Delete 3 documents?')).rejects.toMatchObject({ exit: 'USAGE', fix: 'pass --yes' })
})

/** Runs a program on a terminal, with `parts` of src/cli imported; its standard output goes to a file. `size` sets the terminal's. */
async function runSnippet(parts: string, code: string, { reply, size = '' }: { reply?: { to: string; type: string }; size?: string } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'dms-snippet-'))
  try {
    const program = join(folder, 'snippet.ts')
    writeFileSync(program, `import * as parts from '${new URL(`../../../src/cli/${parts}.ts`, import.meta.url).pathname}'\n${code}`)
    const { stdout } = await runLineOnTerminal(`${size} '${process.execPath}' '${program}' > '${folder}/stdout'`, {
      reply,
      timeout: 60_000,
    })
    return { screen: stripVTControlCharacters(stdout), stdout: readFileSync(join(folder, 'stdout'), 'utf8') }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

onTerminal.each([
  ['yes goes on', 'y\n', /^went on$/],
  ['no is a failure', 'n\n', /^Failure cancelled; nothing was changed$/],
  ['Enter alone is no', '\n', /^Failure cancelled; nothing was changed$/],
  ['Ctrl-C is not an answer', '\u0003', /^ExitPromptError /],
])('a question is on standard error: %s', async (_, type, said) => {
  const ask = `await parts.confirm({ canPrompt: true }, 'Delete 3 documents?').then(
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
const cli = parts.createCli({ opts: () => ({}), options: [] }, terminal)
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
