// Prints docstrings drawn at random, to be read aloud. Rewrite each one that needs a second reading.
//   node .ci/docs-sample.js [COUNT] [SEED]     100 docstrings of src/, commands/ and bin/ unless told otherwise
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const [count = 100, seed = 1] = process.argv.slice(2).map(Number)

const docstrings = ['bin', 'commands', 'src']
  .flatMap((folder) => readdirSync(root + folder, { recursive: true }).map((path) => `${folder}/${path}`))
  .filter((path) => /\.[jt]s$/.test(path))
  .sort()
  .flatMap(docstringsOf)

let state = seed
for (const { place, text } of sample(docstrings, count)) process.stdout.write(`${place}\n    ${text}\n`)
process.stdout.write(`${Math.min(count, docstrings.length)} of ${docstrings.length} docstrings, seed ${seed}\n`)

function docstringsOf(path) {
  const code = readFileSync(root + path, 'utf8')
  return [...code.matchAll(/(?<=^|\s)\/\*\*([\s\S]*?)\*\//g)].map(({ 1: body, index }) => ({
    place: `${path}:${code.slice(0, index).split('\n').length}`,
    text: body
      .replace(/^\s*\* ?/gm, '')
      .trim()
      .replace(/\s+/g, ' '),
  }))
}

/** Draws without replacement (Fisher-Yates). */
function sample(list, size) {
  const left = [...list]
  return Array.from({ length: Math.min(size, left.length) }, () => left.splice(Math.floor(random() * left.length), 1)[0])
}

/** Returns a number from 0 up to 1 (Mulberry32). */
function random() {
  state = (state + 0x6d2b79f5) | 0
  let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
}
