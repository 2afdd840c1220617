/** Enforces names: the banned words do not occur as identifiers. */
import { readdir, readFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('..', import.meta.url))

/** Homely words where the field has a term: segment, lease, timeout, heartbeat, quarantine, remote, anonymous, … */
const banned = new Set(
  `arrive beginNoting bringForward buryDead conclude depart doors giveUpFilling grades hung inLanes Journey journey lanes pace Person
  pulling putOff rider riders seals setAside shelf shelved silence superfluous sweep takeIn unsettled workThrough`.split(/\s+/),
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

/** Returns the words of a program outside of comments and strings. */
function identifiersOf(text: string): string[] {
  const bare = text
    .replace(/\/\*[\s\S]*?\*\//g, '')
    .replace(/(^|\s)\/\/.*$/gm, '')
    .replace(/'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"/g, "''")
    .replace(/`(?:[^`\\$]|\\.|\$(?!\{))*`/g, '``')
  return bare.match(/(?<![\w$])[A-Za-z]\w*/g) ?? []
}

async function filesBelow(folder: string): Promise<string[]> {
  const entries = await readdir(join(root, folder), { recursive: true, withFileTypes: true })
  return entries
    .filter((entry) => entry.isFile() && /\.[jt]s$/.test(entry.name))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
}
