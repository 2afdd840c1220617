/** Explores the order of side effects in short form; `npm run test:simulation` explores more. */
import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import * as newOrder from './simulation/new-order.ts'
import { exploreAll } from './simulation/scenarios.ts'

test('no order of purge, upload, backup, restore, repair and version changes with one fault loses a byte', () => {
  const results = exploreAll('new', 1)
  expect(results.map(({ name, violations }) => [name, ...violations.keys()])).toEqual(results.map(({ name }) => [name]))
  expect(results.reduce((sum, { states }) => sum + states, 0)).toBeGreaterThan(100_000)
})

test('with the earlier order it finds the lost upload, the damaged bytes and the restore that removes files of committed rows', () => {
  const found = new Set(exploreAll('old', 1).flatMap(({ violations }) => [...violations.keys()]))
  expect([...found]).toEqual(
    expect.arrayContaining([
      'the bytes of an acknowledged upload are gone',
      'an acknowledged upload of intact bytes has damaged ones',
      'a restore removed the files of committed rows',
    ]),
  )
})

test('every step of the model names an existing function', async () => {
  const { purge, purgeUncommitted: sweep, upload, backup, orphans, restore, nextRestore, restoreVersion, deleteVersions } = newOrder
  const missing: string[] = []
  for (const { mirrors } of [
    purge,
    sweep,
    upload('a', true),
    backup,
    orphans,
    restore,
    nextRestore,
    restoreVersion,
    deleteVersions(true),
    deleteVersions(false),
  ].flat()) {
    const [file, name] = mirrors
    const code = await readFile(new URL(`../src/${file}`, import.meta.url), 'utf8')
    if (!new RegExp(`(function\\*? |const |async |^ +)${name}\\b *[=(:<]`, 'm').test(code)) missing.push(`${file} ${name}`)
  }
  expect(missing).toEqual([])
})
