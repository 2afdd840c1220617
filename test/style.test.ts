/** Enforces names and sizes: no banned identifiers, no large files, no crowded folders. */
import { readdir, readFile } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('..', import.meta.url))

/** Words without a meaning in the field, which has a term: segment, lease, timeout, heartbeat, quarantine, remote, anonymous, … */
const banned = new Set(
  `admit apart arrive beginNoting belongs besides bringForward buryDead conclude depart door doors doubt evenLight giveUpFilling grades hints hung
  inLanes inTurn intake journey Journey KeepingClient lane lanes late letGo likely loose mend Opinion pace patience patient Person presence
  pulling putOff Question rarities rarity remake rider riders roughly seals seen setAside shelf shelved silence stranger superfluous
  surely sweep takeIn telling there trouble twin unsettled wanted way ways workThrough`.split(/\s+/),
)

const files = (await Promise.all(['bin', 'commands', 'src'].map(filesBelow))).flat()
const code = new Map(await Promise.all(files.map(async (file) => [file, await readFile(join(root, file), 'utf8')] as const)))

test('no identifier is one of the banned words', () => {
  const used = [...code].flatMap(([file, text]) => {
    const words = identifiersOf(text).filter((word) => banned.has(word))
    return words.length === 0 ? [] : [`${file}: ${[...new Set(words)].join(', ')}`]
  })
  expect(used).toEqual([])
})

test('no file has more than 250 lines', () => {
  const long = [...code].filter(([, text]) => text.trimEnd().split('\n').length > 250).map(([file]) => file)
  expect(long).toEqual([])
})

test('no folder has more than 20 files', () => {
  const counts = Map.groupBy(files, (file) => dirname(file))
  expect([...counts].filter(([, { length }]) => length > 20).map(([folder, { length }]) => `${folder}: ${length}`)).toEqual([])
})

test('no docstring begins with "The same"', () => {
  const leaning = [...code].filter(([, text]) => /\/\*\*\s*(\*\s*)?The same\b/.test(text)).map(([file]) => file)
  expect(leaning).toEqual([])
})

/** Returns the words of a program outside of comments and strings. */
function identifiersOf(text: string): string[] {
  const bare = text
    .replace(/\/\*[\s\S]*?\*\//g, '')
    .replace(/(^|\s)\/\/.*$/gm, '')
    .replace(/'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"/g, "''")
    .replace(/`(?:[^`\\]|\\.)*`/g, (template) => (template.match(/\$\{[^}]*\}/g) ?? []).join(' '))
  return bare.match(/(?<![\w$])[A-Za-z]\w*/g) ?? []
}

async function filesBelow(folder: string): Promise<string[]> {
  const entries = await readdir(join(root, folder), { recursive: true, withFileTypes: true })
  return entries
    .filter((entry) => entry.isFile() && /\.[jt]s$/.test(entry.name))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
}
