import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startCli } from '../../support/cli-transports.ts'
import { completeInZsh } from '../../support/processes/complete-in-zsh.ts'
import { bareEnvironment, hasProgram } from '../../support/processes/run.ts'
import { runHere } from '../../support/processes/run-here.ts'

const start = promisify(execFile)

let folder: string
let path: string
const scripts = { bash: '', zsh: '', fish: '' }
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'dms-completion-'))
  await writeFile(join(folder, 'a file.txt'), '')
  path = `${join(folder, 'bin')}:${bareEnvironment().PATH}`
  // Stands for the program that the scripts ask for names.
  await mkdir(join(folder, 'bin'))
  await writeFile(
    join(folder, 'bin', 'dms'),
    `#!/bin/sh\necho "$*" >> '${folder}/asked'\n[ "$1" = complete ] && printf '%s\\n' 'House 7' inbox "$2-kind"\n`,
    {
      mode: 0o755,
    },
  )
  for (const shell of Object.keys(scripts) as (keyof typeof scripts)[]) {
    const { code, stdout, stderr } = await runHere(['completion', shell])
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    scripts[shell] = join(folder, `dms.${shell}`)
    await writeFile(scripts[shell], stdout)
  }
})
afterAll(() => rm(folder, { recursive: true, force: true }))

/** Expected completions at the end of each line; files are those of `folder`. */
const offers: readonly (readonly [line: string, expected: readonly string[]])[] = [
  ['dms sour', ['sources']],
  ['dms metrics ', ['system', 'ocr', 'prometheus']],
  ['dms ocr queue pri', ['prioritise']],
  ['dms sources sync --lo', ['--lock-timeout', '--local', '--log-level', '--log-format']],
  ['dms users ls --dis', ['--disabled']],
  ['dms documents list --order ', ['asc', 'desc']],
  ['dms documents list --status p', ['pending', 'processing']],
  ['dms search query x --status c', ['completed']],
  ['dms search query x --sort ti', ['title']],
  ['dms ocr queue list --status c', ['completed', 'cancelled']],
  ['dms --output json documents list --order d', ['desc']],
  ['dms documents list -o js', ['json', 'jsonl']],
  ['dms -qo json documents list --order d', ['desc']],
  ['dms -ojson documents list -qo js', ['json', 'jsonl']],
  ['dms users set-role ada ', ['admin', 'user']],
  ['dms help exit', ['exit-codes']],
  ['dms help sources sy', ['sync']],
  ['dms completion ', ['bash', 'zsh', 'fish', 'powershell']],
  ['dms documents upload a', ['a file.txt']],
  ['dms users add --password-file a', ['a file.txt']],
]

/** Lines whose names come from `dms complete`, as zsh and fish complete them. */
const named: readonly (readonly [line: string, expected: readonly string[]])[] = [
  ['dms documents list --status pending,f', ['pending,failed']],
  ['dms documents list --order=d', ['--order=desc']],
  ['dms documents list --label ', ['House 7', 'inbox', 'label-kind']],
  ['dms documents list --label=Ho', ['--label=House 7']],
  ['dms documents list --label House\\ ', ['House 7']],
  ['dms documents list --label "inbox,Ho', ['inbox,House 7']],
  ['dms documents upload a --label inbox,Ho', ['inbox,House 7']],
  ['dms users set-role us', ['user-kind']],
  ['dms sources sync inbox sour', ['source-kind']],
  ['dms --context cont', ['context-kind']],
  ['dms context use cont', ['context-kind']],
]

const wordsOf = (line: string): string[] => line.split(' ')
const linesOf = (text: string): string[] => text.split('\n').filter((line) => line !== '')

test.each(offers)('bash: %s', async (line, expected) => {
  const words = wordsOf(line).map((word) => `'${word}'`)
  const program = `source <(cat "$0"); COMP_WORDS=(${words.join(' ')}); COMP_CWORD=${words.length - 1}; _dms; printf '%s\\n' "\${COMPREPLY[@]}"`
  const { stdout, stderr } = await start('bash', ['--norc', '-uc', program, scripts.bash], { cwd: folder, env: bareEnvironment() })
  expect({ offered: linesOf(stdout).sort(), stderr }).toEqual({ offered: [...expected].sort(), stderr: '' })
})

/** The words of these lines are what is between their spaces. */
const unquoted = named.filter(([line]) => !/[=\\"]/.test(line))

test.each(unquoted)('bash: names and further values of %s', async (line, expected) => {
  const words = wordsOf(line).map((word) => `'${word}'`)
  const program = `source "$0"; COMP_WORDS=(${words.join(' ')}); COMP_CWORD=${words.length - 1}; _dms; printf '%s\n' "\${COMPREPLY[@]}"`
  const env = bareEnvironment({ PATH: path })
  const { stdout, stderr } = await start('bash', ['--norc', '-uc', program, scripts.bash], { env })
  expect({ offered: linesOf(stdout), stderr }).toEqual({ offered: expected.map((name) => name.replaceAll(' ', '\\ ')), stderr: '' })
})

test('complete lists names of the server of the typed line; nothing without one, and creates nothing', async () => {
  const { env, envOf, admin, url, asAdmin } = await startCli('HTTP')
  await asAdmin.labels.create({ name: 'House 7', color: '#aabbcc' })
  expect(await runHere(['complete', 'label'], { env })).toMatchObject({ code: 0, stdout: 'House 7\n', stderr: '' })
  const { DMS_TOKEN = '' } = await envOf(admin)
  const typed = ['complete', 'user', '--', '--url', url, 'users', 'list', '-o', 'json', '--help', 'bo']
  expect(await runHere(typed, { env: { DMS_TOKEN } })).toMatchObject({ code: 0, stdout: 'bob\n', stderr: '' })
  expect(await runHere(['complete', 'context'])).toMatchObject({ code: 0, stdout: 'local\n' })
  for (const flags of [['-qc', '/none.toml'], ['-qc/none.toml'], ['--config=/none.toml']])
    expect(await runHere(['complete', 'label', '--', ...flags, 'labels', 'update', ''], { env })).toMatchObject({ stdout: '' })
  const local = await startCli('local')
  await local.asAdmin.labels.create({ name: 'inbox', color: '#aabbcc' })
  await writeFile(join(folder, 'my config.toml'), '')
  for (const config of [`${folder}/my\\ config.toml`, `"${folder}/my config.toml"`, `--config='${folder}/my config.toml'`]) {
    const words = config.startsWith('--') ? [config] : ['-c', config]
    expect(await runHere(['complete', 'label', '--', ...words, 'labels', 'update', ''], local)).toMatchObject({ stdout: 'inbox\n' })
  }
  const none = join(folder, 'none')
  expect(await runHere(['complete', 'label'], { env: { DMS_DATA_DIR: none } })).toMatchObject({ code: 0, stdout: '', stderr: '' })
  await expect(stat(none)).rejects.toMatchObject({ code: 'ENOENT' })
})

test('bash: --flag=value, which bash splits into three words', async () => {
  const program = `source "$0"; COMP_WORDS=(dms documents list --order = d); COMP_CWORD=5; _dms; echo "\${COMPREPLY[@]}"`
  expect((await start('bash', ['--norc', '-c', program, scripts.bash], { env: bareEnvironment() })).stdout).toBe('desc\n')
})

test('bash: URLs, names and paths with colons, at which bash splits words', async () => {
  const other = join(folder, 'other')
  await mkdir(other)
  await writeFile(join(other, 'dms'), `#!/bin/sh\nprintf '%s\n' 'tax:2024 x' "$*"\n`, { mode: 0o755 })
  const complete = async (...words: string[]) => {
    const program = `source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _dms; printf '%s\n' "\${COMPREPLY[@]}"`
    const env = bareEnvironment({ PATH: `${other}:${path}` })
    return linesOf((await start('bash', ['--norc', '-uc', program, scripts.bash, ...words], { cwd: folder, env })).stdout)
  }
  const url = ['https', ':', '//dms.example.org']
  expect(await complete('dms', '--url', ...url, 'labels', 'update', '')).toEqual([
    'tax:2024\\ x',
    'complete\\ label\\ --timeout\\ 3s\\ --\\ --url\\ https://dms.example.org\\ labels\\ update\\ ',
  ])
  expect(await complete('dms', '--url', '=', ...url, 'documents', 'list', '--label', '=', 'tax', ':', '2')).toEqual(['2024\\ x'])
  await writeFile(join(folder, 'a:b.txt'), '')
  expect(await complete('dms', 'documents', 'upload', 'a', ':')).toEqual(['b.txt'])
  await rm(join(folder, 'a:b.txt'))
  await rm(other, { recursive: true })
})

/** Suggestions of `dms complete line`, which the script for PowerShell prints. */
async function suggestionsFor(words: readonly string[], env: Record<string, string> = {}): Promise<string[]> {
  const { code, stdout, stderr } = await runHere(['complete', 'line', '--timeout', '3s', '--', ...words.slice(0, -1), `.${words.at(-1)}`], {
    env,
  })
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  return linesOf(stdout).map((line) => line.split('\t')[0] ?? '')
}

test('PowerShell: the script asks dms with the words before the cursor', async () => {
  const { code, stdout } = await runHere(['completion', 'powershell'])
  expect(code).toBe(0)
  for (const line of [
    'Register-ArgumentCompleter -Native -CommandName dms -ScriptBlock {',
    '    param($wordToComplete, $commandAst, $cursorPosition)',
    '    dms complete line --timeout 3s -- @words $typed 2>$null | ForEach-Object {',
    '        $value, $description = $_ -split "`t", 2',
    "        if ($value -match '[^\\w./:=+-]') {",
  ])
    expect(stdout.split('\n')).toContain(line)
  for (const [open, close] of ['()', '{}', '[]']) expect(stdout.split(open as string).length).toBe(stdout.split(close as string).length)
})

test.each(offers.filter(([, expected]) => !expected.includes('a file.txt')))('PowerShell: %s', async (line, expected) => {
  expect((await suggestionsFor(wordsOf(line).slice(1))).sort()).toEqual([...expected].sort())
})

test('PowerShell: names of the server of the typed line, also in lists; nothing where files are completed', async () => {
  const { env, envOf, admin, url, asAdmin } = await startCli('HTTP')
  for (const name of ['House 7', "it's"]) await asAdmin.labels.create({ name, color: '#aabbcc' })
  expect(await suggestionsFor(['documents', 'list', '--label', ''], env)).toEqual(['House 7', "it's"])
  expect(await suggestionsFor(['documents', 'list', '--label=House'], env)).toEqual(['--label=House 7'])
  expect(await suggestionsFor(['documents', 'upload', 'a', '--label', "it's,Ho"], env)).toEqual(["it's,House 7"])
  const { DMS_TOKEN = '' } = await envOf(admin)
  expect(await suggestionsFor(['--url', url, 'users', 'set-role', 'bo'], { DMS_TOKEN })).toEqual(['bob'])
  expect(await suggestionsFor(['--context', 'lo'])).toEqual(['local'])
  expect(await suggestionsFor(['documents', 'upload', ''])).toEqual([])
  expect(await suggestionsFor(['--url', 'http://127.0.0.1:1', 'labels', 'update', ''])).toEqual([])
})

const hasZsh = hasProgram('zsh')
if (!hasZsh) process.stderr.write('skipped: no zsh to complete in\n')

const isOfTest = (word: string): boolean => !/^(dms\..*|asked)$/.test(word)

test.skipIf(!hasZsh)('zsh: all offers, in a terminal', async () => {
  const completions = await completeInZsh(
    scripts.zsh,
    [...offers, ...named].map(([line]) => line),
    folder,
    path,
  )
  const offered = completions.map((each) =>
    each.offered
      .map((word) => word.replaceAll('\\', ''))
      .filter(isOfTest)
      .sort(),
  )
  expect(offered).toEqual([...offers, ...named].map(([, words]) => [...words].sort()))
  const lineOf = (typed: string) => completions[[...offers, ...named].findIndex(([line]) => line === typed)]?.line
  expect(lineOf('dms ocr queue pri')).toBe('dms ocr queue prioritise ')
  expect(lineOf('dms documents list --label "inbox,Ho')).toBe('dms documents list --label "inbox,House 7" ')
  expect(lineOf('dms documents upload a --label inbox,Ho')).toBe('dms documents upload a --label inbox,House\\ 7 ')
})

const hasFish = hasProgram('fish')
if (!hasFish) process.stderr.write('skipped: no fish to complete in\n')

test.skipIf(!hasFish)('fish: all offers', async () => {
  const typed = [...offers, ...named]
  const lines = typed.map(([line]) => `echo '> ${line}'; complete -C '${line.replaceAll('\\', '\\\\')}'`).join('\n')
  const { stdout, stderr } = await start('fish', ['--no-config', '-c', `source ${scripts.fish}\n${lines}`], {
    cwd: folder,
    env: bareEnvironment({ HOME: folder, PATH: path }),
  })
  expect(stderr).toBe('')
  const offered = stdout
    .split(/^> .*\n/m)
    .slice(1)
    .map((text) => linesOf(text).map((each) => (each.split('\t')[0] ?? '').replaceAll('\\ ', ' ')))
  expect(offered.map((words) => words.filter(isOfTest).sort())).toEqual(typed.map(([, words]) => [...words].sort()))
  expect(await readFile(join(folder, 'asked'), 'utf8')).not.toContain('--lo')
})

test('2 for an unknown shell', async () => {
  expect(await runHere(['completion', 'tcsh'])).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('bash, zsh, fish') })
})
