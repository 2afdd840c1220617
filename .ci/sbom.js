// Writes a CycloneDX SBOM of the production packages in package-lock.json, for all platforms.
//   node .ci/sbom.js [FILE]     default: sbom.cdx.json
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { licenceOf } from './licences.js'

const file = process.argv[2] ?? 'sbom.cdx.json'
// Not `--omit dev`: npm 11 then leaves out production packages that a development package depends on too (jose, nodemailer).
const printed = execFileSync('npm', ['sbom', '--sbom-format', 'cyclonedx', '--package-lock-only'], {
  cwd: fileURLToPath(new URL('..', import.meta.url)),
  encoding: 'utf8',
  maxBuffer: 64_000_000,
})
const sbom = JSON.parse(printed)
const isDevelopment = ({ properties = [] }) =>
  properties.some(({ name, value }) => name === 'cdx:npm:package:development' && value === 'true')

sbom.components = sbom.components
  .filter((component) => !isDevelopment(component))
  .map((component) => {
    const licence = component.licenses ? undefined : licenceOf(component.name)
    return licence ? { ...component, licenses: [{ license: { id: licence } }] } : component
  })
const refs = new Set([sbom.metadata.component['bom-ref'], ...sbom.components.map((component) => component['bom-ref'])])
sbom.dependencies = sbom.dependencies
  .filter(({ ref }) => refs.has(ref))
  .map(({ ref, dependsOn = [] }) => ({ ref, dependsOn: dependsOn.filter((other) => refs.has(other)) }))
writeFileSync(file, `${JSON.stringify(sbom, null, 2)}\n`)
process.stdout.write(`${file}: ${sbom.components.length} packages\n`)
