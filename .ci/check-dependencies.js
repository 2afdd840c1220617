// What must hold of every package in package-lock.json: pinned, whole, no version with a known hole, a licence that lets others use it.
//   node .ci/check-dependencies.js [FOLDER]     FOLDER has package.json and package-lock.json; default: this project
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const folder = process.argv[2] ?? fileURLToPath(new URL('..', import.meta.url))
const read = (name) => JSON.parse(readFileSync(join(folder, name), 'utf8'))
const manifest = read('package.json')
const lock = read('package-lock.json')

/** First version without a published hole; a list where older majors were mended too. From the packages' own advisories. */
const floors = {
  '@fastify/multipart': ['9.0.3'],
  esbuild: ['0.28.1'],
  'fast-jwt': ['6.1.1'],
  'fast-xml-parser': ['5.7.0'],
  'file-type': ['21.3.2'],
  hono: ['4.12.25'],
  jws: ['3.2.3', '4.0.1'],
  minimatch: ['3.1.4', '4.2.5', '5.1.8', '6.2.2', '7.4.8', '8.0.6', '9.0.7', '10.2.3'],
  multer: ['2.1.0'],
  nodemailer: ['9.0.0'],
  'path-to-regexp': ['0.1.12', '8.0.0'],
  'pdfjs-dist': ['4.2.67'],
  undici: ['8.5.0'],
  vitest: ['4.1.9'],
  ws: ['8.17.1'],
  yaml: ['2.8.3'],
}

const licences = new Set([
  '0BSD',
  'Apache-2.0',
  'BlueOak-1.0.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'ISC',
  'LGPL-3.0-or-later', // libvips, a shared library that sharp loads
  'MIT',
  'MIT-0',
  'MPL-2.0',
  'Unlicense',
])

/** Packages whose licence is only in a file of theirs, by hand: busboy and streamsearch, both MIT. */
const licensedInFile = new Set(['busboy', 'streamsearch'])

const problems = []
for (const [kind, wanted] of ['dependencies', 'devDependencies', 'optionalDependencies'].map((kind) => [kind, manifest[kind] ?? {}])) {
  for (const [name, version] of Object.entries(wanted)) {
    if (!/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version)) problems.push(`package.json: ${kind}.${name} is "${version}", which is not one version`)
    const locked = lock.packages[`node_modules/${name}`]?.version
    if (locked !== version) problems.push(`package-lock.json: ${name} is ${locked ?? 'missing'}, package.json says ${version}`)
  }
}
for (const [place, { version, license, integrity, optional, resolved, inBundle }] of Object.entries(lock.packages)) {
  const name = place.split('node_modules/').at(-1)
  if (name === '') continue
  // A package of another platform, which complete-lockfile.js names so that npm accepts the file.
  const isNamedOnly = optional && !license && !integrity
  if (!integrity && !isNamedOnly && !inBundle) problems.push(`${place}: no checksum`)
  if (resolved && !/^https:\/\//.test(resolved)) problems.push(`${place}: comes from ${resolved}`)
  if (floors[name] && !isSafe(version, floors[name])) problems.push(`${place}: ${version} has a known hole; ${floors[name].at(-1)} has not`)
  if (!isNamedOnly && !licensedInFile.has(name) && !isFree(license)) problems.push(`${place}: licence ${license ?? 'unknown'}`)
}

for (const problem of problems) process.stderr.write(`${problem}\n`)
if (problems.length === 0)
  process.stdout.write(`${Object.keys(lock.packages).length - 1} packages: pinned, whole, no known hole, free licences\n`)
process.exitCode = problems.length === 0 ? 0 : 1

/** At least the floor of its own major, or newer than all majors that have one. */
function isSafe(version, floorsOfIt) {
  const own = floorsOfIt.find((floor) => major(floor) === major(version))
  return own ? compare(version, own) >= 0 : major(version) > major(floorsOfIt.at(-1))
}

/** An SPDX expression of the two forms that occur: alternatives of which one is enough, and lists that all count. */
function isFree(expression = '') {
  return expression
    .replace(/[()]/g, '')
    .split(' OR ')
    .some((all) => all.split(' AND ').every((licence) => licences.has(licence)))
}

function compare(a, b) {
  const [left, right] = [a, b].map((version) => version.split('-')[0].split('.').map(Number))
  return left.map((part, at) => part - right[at]).find((difference) => difference !== 0) ?? 0
}

function major(version) {
  return Number(version.split('.')[0])
}
