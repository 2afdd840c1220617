/** What the README tells people to type: every dms in it is a command with flags that there are, and what only looks works as it stands. */
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { commandLines, parseWords } from '../support/processes/command-line.ts'
import { run } from '../support/processes/run.ts'
import { startServer, tokenFor } from '../support/servers/server.ts'

const text = await readFile(new URL('../../README.md', import.meta.url), 'utf8')
const blocks = [...text.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, block = '']) => block)
const screens = [...text.matchAll(/^```\n([\s\S]*?)^```$/gm)].map(([, block = '']) =>
  block
    .split('\n')
    .filter((line) => line.startsWith('$ '))
    .map((line) => line.slice(2))
    .join('\n'),
)
const lines = [...blocks, ...screens].flatMap((block) => commandLines(block.replace(/\\\n/g, ' ')))

test('lines of shell are taken apart', () => {
  const shell = `*/5 * * * *  dms  dms worker --once -q  # dms comment
url=$(dms shared-links create "$id" --expires 7d) && DMS_URL=x dms --json list 'a b' > f; install -o dms -g dms x | xargs -r dms text`
  expect(commandLines(shell)).toEqual([
    ['worker', '--once', '-q'],
    ['shared-links', 'create', '$id', '--expires', '7d'],
    ['--json', 'list', 'a b'],
    ['text', 'ID'],
  ])
})

test('every command line of the README is one that dms takes', async () => {
  expect(lines.length).toBeGreaterThan(40)
  const refused: string[] = []
  for (const words of lines) {
    const { problem } = await parseWords(words)
    if (problem !== null) refused.push(`dms ${words.join(' ')}: ${problem}`)
  }
  expect(refused).toEqual([])
})

/** These look, and change nothing. */
const harmless =
  /^(api GET|audit (list|verify)|config (check|show)|context list|documents list|help|healthcheck|labels list|metrics|notifications list|ocr queue( status| list)?$|search (query|status|suggest)|sources (list|status)|users list|version|whoami)/

test('those that only look work on a server as they stand', async () => {
  const { app, admin, asAdmin, url } = await startServer({ 'metrics.enabled': false })
  await asAdmin.labels.create({ name: 'inbox', color: '#112233' })
  const folder = await mkdtemp(join(tmpdir(), 'dms-readme-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const token = await tokenFor(app, admin)
  const looks = lines.filter((words) => {
    const line = words.filter((word) => !word.startsWith('-')).join(' ')
    return harmless.test(line) && !words.some((word) => /^--(url|local|context|print-curl)$|\$|example\.org/.test(word))
  })
  expect(looks.length).toBeGreaterThan(5)
  const wrong: string[] = []
  for (const words of looks) {
    const isHere = words[0] === 'config'
    const env: Record<string, string> = isHere ? { DMS_DATA_DIR: folder } : { DMS_URL: url, DMS_TOKEN: token }
    const { code, stderr } = await run(words, { env: { HOME: folder, ...env } })
    if (code !== 0) wrong.push(`dms ${words.join(' ')}: exit ${code}: ${stderr}`)
  }
  expect(wrong).toEqual([])
}, 60_000)
