/** Checks README and docs/: commands parse, links lead to files and headings. */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { copyFile, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { commandLines, parseWords } from '../support/processes/command-line.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const names = [
  'README.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  'SECURITY.md',
  ...(await readdir(join(root, 'docs'), { recursive: true })).filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`),
]
const pages = new Map(await Promise.all(names.map(async (name) => [name, await readFile(join(root, name), 'utf8')] as const)))
const lines = [...pages.values()].flatMap((text) => {
  const blocks = [...text.matchAll(/^```(?:sh|cron)\n([\s\S]*?)^```$/gm)].map(([, block = '']) => block)
  const screens = [...text.matchAll(/^```(?:console)?\n([\s\S]*?)^```$/gm)].map(([, block = '']) =>
    block
      .split('\n')
      .filter((line) => line.startsWith('$ '))
      .map((line) => line.slice(2))
      .join('\n'),
  )
  return [...blocks, ...screens].flatMap((block) => commandLines(block.replace(/\\\n/g, ' ')))
})

test('README.md has at most 150 lines', () => {
  expect(pages.get('README.md')?.trimEnd().split('\n').length).toBeLessThanOrEqual(150)
})

test('links lead to files and headings that exist', () => {
  const broken = [...pages].flatMap(([name, text]) =>
    [...text.matchAll(/\]\(([^)\s]+)\)/g)].flatMap(([, target = '']) => {
      if (/^https?:/.test(target)) return []
      const [path = '', anchor] = target.split('#')
      const file = path === '' ? name : join(dirname(name), path)
      const isBroken = !existsSync(join(root, file)) || (anchor !== undefined && !anchorsOf(pages.get(file) ?? '').includes(anchor))
      return isBroken ? [`${name}: ${target}`] : []
    }),
  )
  expect(broken).toEqual([])
})

/** Returns the anchors of the headings of a page, formed as GitHub forms them. */
const anchorsOf = (text: string): string[] =>
  [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-'),
  )

test('commandLines finds the dms commands in shell text', () => {
  const shell = `*/5 * * * *  dms  dms worker --once -q  # dms comment
url=$(dms shared-links create "$id" --expires 7d) && DMS_URL=x dms --json list 'a b' > f; install -o dms -g dms x | xargs -r dms text`
  expect(commandLines(shell)).toEqual([
    ['worker', '--once', '-q'],
    ['shared-links', 'create', '$id', '--expires', '7d'],
    ['--json', 'list', 'a b'],
    ['text', 'ID'],
  ])
})

test('every command line of the documentation parses', async () => {
  expect(lines.length).toBeGreaterThan(40)
  const refused: string[] = []
  for (const words of lines) {
    const { problem } = await parseWords(words)
    if (problem !== null) refused.push(`dms ${words.join(' ')}: ${problem}`)
  }
  expect(refused).toEqual([])
})

test('docs/benchmarks.md and docs/scaling.md show the results in docs/benchmarks.json', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'dms-docs-'))
  try {
    const names = ['benchmarks.json', 'benchmarks.md', 'scaling.md']
    for (const name of names) await copyFile(join(root, 'docs', name), join(folder, name))
    const run = promisify(execFile)
    await run(process.execPath, [join(root, 'bench/report.ts'), '--render', '--to', folder])
    await run(process.execPath, [join(root, 'bench/scaling.ts'), '--docs', folder])
    for (const name of names)
      expect(await readFile(join(folder, name), 'utf8'), name).toBe(await readFile(join(root, 'docs', name), 'utf8'))
    const plots = await readdir(join(folder, 'benchmarks'))
    expect(await readdir(join(root, 'docs/benchmarks'))).toEqual(plots)
    expect(plots.length).toBeGreaterThan(0)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
})
