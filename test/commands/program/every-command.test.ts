/** Rules for all commands of the command tree, including new ones. */
import { spawn } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { run as runHere } from '../../../commands/program.ts'
import { displayWidth } from '../../../src/cli/output/table.ts'
import { type Row, rows } from '../../support/data/every-row.ts'
import { makeWorlds, type World } from '../../support/every-world.ts'
import { isJson } from '../../support/is-json.ts'
import { bareEnvironment, executable, hasProgram, runLineOnTerminal } from '../../support/processes/run.ts'
import { screen } from '../../support/processes/screen.ts'
import { startServer } from '../../support/servers/server.ts'

const worked = Object.entries(rows).flatMap(([name, row]) => ('elsewhere' in row ? [] : [{ name, row }]))

/** Returns the arguments and the environment of a row. */
async function lineOf(name: string, row: Row, world: World, way: 'here' | 'there') {
  const env = await world.env(way, row.who ?? 'person')
  return { args: [...name.split(' '), ...(row.args?.(world) ?? [])], env: bareEnvironment(env) }
}

/** Creates equal worlds. Every command runs in each of them. */
async function worldsOf<const N extends string>(...names: N[]): Promise<Record<N, World>> {
  const folder = await mkdtemp(join(tmpdir(), 'dms-every-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const server = await startServer({ 'sources.local_roots': folder })
  return makeWorlds(server, folder, names)
}

/** Runs dms as a child process with standard error closed. */
function child(args: readonly string[], env: Record<string, string>, input: string): Promise<{ code: number | null; stdout: string }> {
  return new Promise((resolve, reject) => {
    const line = ['-c', 'exec "$0" "$@" 2>&-', process.execPath, executable, ...args]
    const started = spawn('sh', line, { env, stdio: ['pipe', 'pipe', 'ignore'], timeout: 30_000, killSignal: 'SIGKILL' })
    let stdout = ''
    started.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text
    })
    started.stdin.on('error', () => {})
    started.stdin.end(input)
    started.on('error', reject)
    started.on('close', (code) => resolve({ code, stdout }))
  })
}

/** Records the arguments of all dms processes from /proc until the returned function is called. */
function watchLines() {
  const seen = new Set<string>()
  let isOver = false
  const look = async (): Promise<void> => {
    while (!isOver) {
      for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
        const line = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
        if (line.includes('dms.js')) seen.add(line)
      }
      await new Promise((resolve) => setTimeout(resolve, 200))
    }
  }
  const looking = look()
  return async () => {
    isOver = true
    await looking
    return [...seen]
  }
}

/** Replaces everything that may differ between two worlds. */
function normal(world: World, text: string): string {
  return text
    .replaceAll(world.name, 'WORLD')
    .replaceAll(world.folder, 'FOLDER')
    .replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, 'ID')
    .replace(/-[0-9a-f]{12}\b/g, '-IDEND')
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
    .replace(/"sha256": "[0-9a-f]{64}"/g, 'SUM')
    .replace(/"(size|bytes|duration_seconds|score|created_by|ocr_confidence|processing_time|worker)": [\d."a-z-]+/g, '"$1": N')
    .replace(/"(token|url)": "[^"]*"/g, '"$1": "…"')
}

test('every command: --json prints JSON with standard error closed, equal locally and over HTTP; no secret in arguments', async () => {
  const { here, there } = await worldsOf('here', 'there')
  const stopWatching = watchLines()
  const wrong: string[] = []
  const secrets = [(await there.env('there', 'admin')).DMS_TOKEN ?? '', (await there.env('there', 'person')).DMS_TOKEN ?? '']
  const run = async (world: World, way: 'here' | 'there', { name, row }: (typeof worked)[number]) => {
    const { args, env } = await lineOf(name, row, world, way)
    const words = [...args, '--json']
    const input = row.input?.(world) ?? ''
    // Commands that read standard input or use HTTP run as processes; the others run here, which is faster.
    if (way === 'there' || input !== '' || row.only === 'here') return child(words, env, input)
    const { streams, stdout } = screen(env, null)
    return { code: await runHere(words, streams), stdout: stdout() }
  }
  const check = (name: string, row: Row, { code, stdout }: { code: number | null; stdout: string }): void => {
    if (code !== (row.code ?? 0)) wrong.push(`${name}: exit ${code}: ${stdout.slice(0, 300)}`)
    if (row.prints === 'bytes') return
    const isData = isJson(stdout) || stdout.trimEnd().split('\n').every(isJson)
    if (!isData) wrong.push(`${name}: not JSON: ${JSON.stringify(stdout.slice(0, 200))}`)
  }
  const outputs = new Map<string, Record<string, string>>()
  const all = async (world: World, way: 'here' | 'there', some = worked) => {
    for (const each of some) {
      const { name, row } = each
      if (row.only !== undefined && row.only !== way) continue
      const ended = await run(world, way, each)
      check(`${name} (${way})`, row, ended)
      outputs.set(name, { ...outputs.get(name), [way]: normal(world, ended.stdout) })
    }
  }
  // Commands of a group depend on each other; groups are independent.
  const groups = [...Map.groupBy(worked, ({ name }) => groupOf(name)).values()]
  const lane = async () => {
    for (let group = groups.shift(); group; group = groups.shift()) await all(there, 'there', group)
  }
  await Promise.all([all(here, 'here'), lane(), lane()])
  for (const { name, row } of worked) {
    const { here: one, there: other } = outputs.get(name) ?? {}
    if (row.only === undefined && row.prints === undefined && one !== other)
      wrong.push(`${name}: not the same here and over HTTP:\n--- here\n${one?.slice(0, 1500)}\n--- there\n${other?.slice(0, 1500)}`)
  }
  expect(wrong).toEqual([])
  const lines = await stopWatching()
  expect(lines.length).toBeGreaterThan(30)
  expect(lines.filter((line) => secrets.some((secret) => line.includes(secret)) || line.includes('correct horse battery'))).toEqual([])
}, 180_000)

test('every command: plain text in a pipe, at most 60 columns on a terminal of 60, exit 2 instead of a question', async () => {
  const { piped, narrow } = await worldsOf('piped', 'narrow')
  const wrong: string[] = []
  const all = async (world: World, columns: number | null, look: (name: string, row: Row, stdout: string) => void) => {
    for (const { name, row } of worked) {
      if (row.only !== undefined || row.input) continue
      const { args, env } = await lineOf(name, row, world, 'there')
      if (row.asks) {
        const { streams, stdout, stderr } = screen(env, columns)
        const code = await runHere([...name.split(' '), ...row.asks(world)], streams)
        if (code !== 2 || stdout() !== '' || !stderr().includes('fix: pass')) wrong.push(`${name} asks: ${code} ${stdout()} ${stderr()}`)
      }
      const { streams, stdout, stderr } = screen({ ...env, TERM: 'xterm' }, columns)
      const code = await runHere(args, streams)
      if (code !== (row.code ?? 0)) wrong.push(`${name}: exit ${code}: ${stderr()}`)
      look(name, row, stdout())
    }
  }
  await Promise.all([
    all(piped, null, (name, _, stdout) => {
      // biome-ignore lint/suspicious/noControlCharactersInRegex: an escape character is what must not be there
      if (/\x1b|[─│┌┐└┘├┤┬┴┼═║]/.test(stdout)) wrong.push(`${name}: ${JSON.stringify(stdout.slice(0, 300))}`)
    }),
    all(narrow, 60, (name, row, stdout) => {
      if (row.prints === 'bytes' || rawText.includes(name)) return
      // Paths are never wrapped.
      for (const line of stripVTControlCharacters(stdout).split('\n'))
        if (displayWidth(line.replaceAll(narrow.folder, 'FOLDER')) > 60) wrong.push(`${name}: ${displayWidth(line)} columns: ${line}`)
    }),
  ])
  expect(wrong).toEqual([])
}, 180_000)

/** Commands that print unwrapped text. */
const rawText = ['documents text', 'users export', 'audit export', 'metrics prometheus', 'shared-links create', 'tokens create', 'help']

const hasTerminal = hasProgram('script')
if (!hasTerminal) process.stderr.write('skipped: without the program `script` there is no terminal to test on\n')

test.skipIf(!hasTerminal)(
  'on a real terminal: no colour with NO_COLOR, TERM=dumb or --no-color, and no line wider than it',
  async () => {
    const { narrow } = await worldsOf('narrow')
    const env = await narrow.env('there', 'person')
    const line = (...args: string[]) => [process.execPath, executable, ...args].map((word) => `'${word}'`).join(' ')
    const inColour = await runLineOnTerminal(line('documents', 'list'), { env: { ...env, COLUMNS: '60' } })
    expect(inColour.stdout).toContain('\u001b[1m')
    const plain = await Promise.all([
      runLineOnTerminal(line('documents', 'list'), { env: { ...env, COLUMNS: '60', NO_COLOR: '1' } }),
      runLineOnTerminal(line('users', 'list'), { env: { ...(await narrow.env('there', 'admin')), COLUMNS: '60', TERM: 'dumb' } }),
      runLineOnTerminal(line('ocr', 'queue', 'list', '--no-color'), { env: { ...env, COLUMNS: '60' } }),
    ])
    for (const { code, stdout } of plain) {
      expect([code, stdout.includes('\u001b')]).toEqual([0, false])
      for (const text of stdout.split('\n')) expect(displayWidth(text), text).toBeLessThanOrEqual(60)
    }
  },
  60_000,
)

test('0 without messages if the reader of a list closes the pipe', async () => {
  const { narrow } = await worldsOf('narrow')
  const env = bareEnvironment(await narrow.env('there', 'admin'))
  const words = ['documents list --all --json', 'metrics prometheus', 'users export -o jsonl']
  const ended = await Promise.all(
    words.map(
      (args) =>
        new Promise((resolve) => {
          const line = `{ "${process.execPath}" "${executable}" ${args}; echo "exit $?" >&2; } | head -1 > /dev/null`
          const started = spawn('sh', ['-c', line], { env, stdio: ['ignore', 'ignore', 'pipe'] })
          let stderr = ''
          started.stderr.setEncoding('utf8').on('data', (text: string) => {
            stderr += text
          })
          started.on('close', () => resolve(stderr))
        }),
    ),
  )
  expect(ended).toEqual(words.map(() => 'exit 0\n'))
})

/** Returns the group of a command. Most other commands share the documents. */
const groupOf = (name: string): string =>
  /^(users|labels|sources|tokens|context|backup|settings|notifications) /.exec(name)?.[1] ?? 'documents'
