/** Expressions of ours that a text could keep busy for ever; and that the tests which the README names for each threat are there. */
import { execFile } from 'node:child_process'
import { access, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

test('no regular expression of the program takes longer than with the square of a text', { timeout: 400_000 }, async () => {
  const program = fileURLToPath(new URL('./support/slow-expressions.ts', import.meta.url))
  const { stdout } = await promisify(execFile)(process.execPath, [program])
  const { tried, slow, missed } = JSON.parse(stdout)
  expect(tried).toBeGreaterThan(100)
  expect({ slow, missed }).toEqual({ slow: [], missed: [] })
})

test('each threat in the README names tests that there are', async () => {
  const text = await readFile(new URL('../README.md', import.meta.url), 'utf8')
  const [, table = ''] = /^\| attack \|.*\n\|[-|]+\n((?:\|.*\n)+)/m.exec(text) ?? []
  const rows = table.trimEnd().split('\n')
  expect(rows.length).toBeGreaterThan(15)
  for (const row of rows)
    for (const name of (row.split('|').at(-2) ?? '').split(',')) await access(new URL(`./${name.trim()}.test.ts`, import.meta.url))
})
