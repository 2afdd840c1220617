/** No regular expression takes unbounded time; and the tests exist that docs/security.md names for each threat. */
import { execFile } from 'node:child_process'
import { access, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { runSteps } from '../../src/http/time-slices.ts'
import { searchSubstrings } from '../../src/search/highlight/substrings.ts'

test('no regular expression takes more than quadratic time', { timeout: 400_000 }, async () => {
  const program = fileURLToPath(new URL('../support/data/slow-expressions.ts', import.meta.url))
  const { stdout } = await promisify(execFile)(process.execPath, [program])
  const { tried, slow, missed } = JSON.parse(stdout)
  expect(tried).toBeGreaterThan(100)
  expect({ slow, missed }).toEqual({ slow: [], missed: [] })
})

test('a hundred parts of a text that nearly match everywhere are searched in linear time', async () => {
  const text = 'a '.repeat(500_000)
  const pieces = Array.from({ length: 100 }, (_, nth) => `${'a '.repeat(50)}${'b '.repeat(nth)}c`)
  const before = process.cpuUsage()
  expect(await runSteps(searchSubstrings(text, [...pieces, 'b a', 'a a a a']))).toHaveLength(125_000)
  // A comparison at every offset would take five billion steps.
  const { user } = process.cpuUsage(before)
  expect(user / 1e6).toBeLessThan(8)
})

test('parts match as an expression with any number of spaces does', async () => {
  const word = fc.array(fc.constantFrom('a', 'b', ' ', '\u00a0', '\n', 'É', 'ß'), { maxLength: 40 }).map((parts) => parts.join(''))
  const piece = fc.array(fc.constantFrom('a', 'b', ' ', 'é'), { minLength: 1, maxLength: 4 }).map((parts) => parts.join(''))
  await fc.assert(
    fc.asyncProperty(word, piece, async (text, value) => {
      fc.pre(value.trim() === value)
      const expression = new RegExp(value.replace(/\s+/g, '\\s+').replaceAll('é', '[éÉ]').replaceAll('ß', 'ss'), 'g')
      const expected = [...text.matchAll(expression)].map(({ 0: { length }, index }) => ({
        start: index,
        end: index + length,
        substring: 0,
      }))
      expect(await runSteps(searchSubstrings(text, [value.replaceAll('é', 'É')]))).toEqual(expected)
    }),
  )
})

test('every test that docs/security.md names exists', async () => {
  const text = await readFile(new URL('../../docs/security.md', import.meta.url), 'utf8')
  const [, table = ''] = /^\| attack \|.*\n\|[-|]+\n((?:\|.*\n)+)/m.exec(text) ?? []
  const rows = table.trimEnd().split('\n')
  expect(rows.length).toBeGreaterThan(15)
  for (const row of rows)
    for (const name of (row.split('|').at(-2) ?? '').split(',')) await access(new URL(`../${name.trim()}.test.ts`, import.meta.url))
})
