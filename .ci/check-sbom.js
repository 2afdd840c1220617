// Checks the SBOM: it lists exactly the production packages of package-lock.json, each with its checksum and an accepted licence.
//   node .ci/check-sbom.js [FILE] [FOLDER]     FOLDER has package-lock.json; default: sbom.cdx.json and this project
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isAllowed, nameOf } from './licences.js'

const file = process.argv[2] ?? 'sbom.cdx.json'
const folder = process.argv[3] ?? fileURLToPath(new URL('..', import.meta.url))
const sbom = JSON.parse(readFileSync(file, 'utf8'))
const lock = JSON.parse(readFileSync(join(folder, 'package-lock.json'), 'utf8'))

const problems = []
if (sbom.bomFormat !== 'CycloneDX') problems.push(`bomFormat is ${sbom.bomFormat}, not CycloneDX`)
if (!/^1\.[5-9]$/.test(sbom.specVersion)) problems.push(`specVersion is ${sbom.specVersion}, not 1.5 or later`)

/** Packages by name and version: their SHA-512 (null for a package inside another one, whose checksum covers it) and their name in the registry. */
const locked = new Map()
for (const [place, { name = nameOf(place), version, integrity, dev, inBundle }] of Object.entries(lock.packages))
  if (place !== '' && !dev) locked.set(`${nameOf(place)}@${version}`, { published: name, checksum: inBundle ? null : sha512Of(integrity) })

const listed = new Set()
for (const { name, version, purl, hashes = [], licenses = [] } of sbom.components ?? []) {
  const id = `${name}@${version}`
  if (listed.has(id)) problems.push(`${id}: twice`)
  listed.add(id)
  const { published = name, checksum: expected } = locked.get(id) ?? {}
  if (!locked.has(id)) problems.push(`${id}: not a production package of package-lock.json`)
  if (purl !== `pkg:npm/${published.replace('@', '%40')}@${version}`) problems.push(`${id}: purl is ${purl}`)
  const checksum = hashes.find(({ alg }) => alg === 'SHA-512')?.content
  if (expected && checksum !== expected) problems.push(`${id}: checksum ${checksum ?? 'missing'}`)
  const expression = licenses.map(({ expression, license }) => expression ?? license?.id).join(' AND ')
  if (!isAllowed(expression)) problems.push(`${id}: licence ${expression || 'unknown'}`)
}
for (const id of locked.keys()) if (!listed.has(id)) problems.push(`${id}: in package-lock.json, not in the SBOM`)

for (const problem of problems) process.stderr.write(`${problem}\n`)
if (problems.length === 0)
  process.stdout.write(`${listed.size} packages in the SBOM: those of package-lock.json, with checksums and accepted licences\n`)
process.exitCode = problems.length === 0 ? 0 : 1

function sha512Of(integrity = '') {
  const [, base64 = ''] = /sha512-(\S+)/.exec(integrity) ?? []
  return Buffer.from(base64, 'base64').toString('hex')
}
