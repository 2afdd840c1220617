import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { firstWords } from '../../../commands/command-table.ts'
import { programFor } from '../../../commands/program.ts'
import { buildCommandTree, flattenTree } from '../../../src/cli/output/command-tree.ts'
import { bareEnvironment, hasProgram, run } from '../../support/processes/run.ts'

const start = promisify(execFile)
const { program } = await programFor({ env: {}, stdin: process.stdin, stdout: process.stdout, stderr: process.stderr })
const words = flattenTree(buildCommandTree(program))
const names = words.map(({ path }) => path.replaceAll(' ', '-'))

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'dms-docs-'))
  for (const kind of ['man', 'markdown']) {
    const { code, stdout, stderr } = await run(['docs', kind, '--dir', join(folder, kind), '-o', 'id'])
    expect({ code, stderr, pages: stdout.trim().split('\n').length }).toEqual({ code: 0, stderr: '', pages: names.length })
  }
})
afterAll(() => rm(folder, { recursive: true, force: true }))

test('a page for every command, in both forms, and nothing else', async () => {
  expect(names).toContain('dms-sources-sync')
  expect((await readdir(join(folder, 'man'))).sort()).toEqual(names.map((name) => `${name}.1`).sort())
  expect((await readdir(join(folder, 'markdown'))).sort()).toEqual(names.map((name) => `${name}.md`).sort())
})

test('dms --help shows the summary of each command', () => {
  const shown = Object.entries(firstWords).map(([name, { summary, aliases = [] }]) => [name, summary, aliases])
  expect(shown).toEqual(program.commands.map((command) => [command.name(), command.summary(), command.aliases()]))
})

test('docs/cli.md names each command', async () => {
  const manual = await readFile(new URL('../../../docs/cli.md', import.meta.url), 'utf8')
  const table = manual.slice(manual.indexOf('## Commands'), manual.indexOf('## Global options'))
  const visible = Object.entries(firstWords).flatMap(([name, { isHidden = false }]) => (isHidden ? [] : [name]))
  expect(visible.filter((name) => !table.includes(`\`${name}`))).toEqual([])
})

test('the pages are reproducible', async () => {
  const again = join(folder, 'again')
  await run(['docs', 'man', '--dir', again])
  for (const name of names) expect(await readFile(join(again, `${name}.1`))).toEqual(await readFile(join(folder, 'man', `${name}.1`)))
})

test('Markdown: linked pages exist', async () => {
  for (const name of names) {
    const text = await readFile(join(folder, 'markdown', `${name}.md`), 'utf8')
    const linked = [...text.matchAll(/\]\(([^)]+)\.md\)/g)].map(([, page]) => page)
    expect(linked.filter((page) => !names.includes(page ?? ''))).toEqual([])
  }
})

test('help shows docs man and docs markdown as they are typed', async () => {
  for (const kind of ['man', 'markdown'])
    expect((await run(['docs', kind, '--help'])).stdout).toMatch(new RegExp(`^Usage: dms docs ${kind} \\[options\\]\n`))
})

test('2 without --dir, and for a folder that cannot be created', async () => {
  expect(await run(['docs', 'man'])).toMatchObject({ code: 2, stderr: expect.stringContaining('--dir') })
  expect(await run(['docs', 'man', '--dir', '/dev/null/man'])).toMatchObject({ code: 2, stdout: '' })
})

const hasGroff = hasProgram('groff')
if (!hasGroff) process.stderr.write('skipped: no groff to set the manual pages with\n')

test.skipIf(!hasGroff)('groff prints no warning, and shows flags and examples as typed', async () => {
  const files = names.map((name) => join(folder, 'man', `${name}.1`))
  const { stderr } = await start('groff', ['-man', '-Tutf8', '-ww', '-z', ...files], { env: bareEnvironment() })
  expect(stderr).toBe('')
  const shown = await start('groff', ['-man', '-Tutf8', '-P-c', join(folder, 'man/dms-documents-list.1')], { env: bareEnvironment() })
  // biome-ignore lint/suspicious/noControlCharactersInRegex: groff writes bold as a letter over itself
  const text = shown.stdout.replace(/.\x08/g, '')
  expect(text).toContain('dms documents list')
  expect(text).toMatch(/--status <names>/)
})

const hasMan = hasProgram('man')
if (!hasMan) process.stderr.write('skipped: no man to read manual pages with\n')

test.skipIf(!hasMan)('man prints no warning', async () => {
  const env = bareEnvironment({ MANROFFSEQ: '', MANWIDTH: '80', LC_ALL: 'C.UTF-8' })
  const files = names.map((name) => join(folder, 'man', `${name}.1`))
  const { stdout, stderr } = await start('man', ['--warnings', '-l', '--pager=cat', ...files], { env, maxBuffer: 2 ** 24 })
  expect(stderr).toBe('')
  expect(stdout).toContain('DMS-SOURCES-SYNC(1)')
})
