/** The checks of packages and SBOM accept ours and refuse bad ones. */
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))

test('exit 0 for the packages of this version', async () => {
  expect(await check(root)).toMatchObject({ code: 0, stderr: '' })
})

test('every package of every platform has a checksum in package-lock.json', async () => {
  const { packages } = JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8')) as Lock
  const unchecked = Object.entries(packages).filter(([place, { integrity, inBundle, link }]) => place && !integrity && !inBundle && !link)
  expect(unchecked.map(([place]) => place)).toEqual([])
})

test.each([
  ['a version with a known hole', { version: '4.1.392' }, 'node_modules/pdfjs-dist: 4.1.392 has a known hole'],
  ['a licence that binds others', { license: 'AGPL-3.0-only' }, 'node_modules/pdfjs-dist: licence AGPL-3.0-only'],
  ['no licence', { license: undefined }, 'node_modules/pdfjs-dist: licence unknown'],
  ['no checksum', { integrity: undefined }, 'node_modules/pdfjs-dist: no checksum'],
  [
    'no checksum, of another platform',
    { optional: true, os: ['sunos'], license: undefined, integrity: undefined },
    'node_modules/pdfjs-dist: no checksum',
  ],
  ['the address of a registry', { resolved: 'https://registry.example/a.tgz' }, 'pdfjs-dist: comes from https://registry.example'],
  ['a binary that is not in the file', { optionalDependencies: { '@x/y-sunos': '1.0.0' } }, 'pdfjs-dist: @x/y-sunos is missing'],
  ['a version that package.json does not name', { version: '99.0.0' }, 'pdfjs-dist is 99.0.0, package.json says'],
])('exit 1 for a package with %s', async (_, change, problem) => {
  const folder = await copyWith((lock) => Object.assign(lock.packages['node_modules/pdfjs-dist'] ?? {}, change))
  expect(await check(folder)).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining(problem) })
})

test('exit 1 for a version below the fixed one of its major', async () => {
  const folder = await copyWith((lock) => {
    lock.packages['node_modules/minimatch'] = { version: '9.0.6', license: 'ISC', integrity: 'sha512-x' }
  })
  expect(await check(folder)).toMatchObject({ code: 1, stderr: expect.stringContaining('node_modules/minimatch: 9.0.6 has a known hole') })
})

test('exit 0 for the SBOM of this version', async () => {
  expect(await checkSbom(await sbomWith(() => {}))).toMatchObject({ code: 0, stderr: '' })
})

test.each<[string, (components: Component[]) => void, string]>([
  ['without a package', (all) => void all.splice(0, 1), '@borewit/text-codec@0.2.3: in package-lock.json, not in the SBOM'],
  ['with a package too many', (all) => void all.push(component({ name: 'left-pad' })), 'left-pad@1.0.0: not a production package'],
  ['with a package twice', (all) => void all.push(all[0] as Component), '@borewit/text-codec@0.2.3: twice'],
  [
    'with a licence that binds others',
    (all) => void Object.assign(all[0] ?? {}, { licenses: [{ license: { id: 'SSPL-1.0' } }] }),
    'SSPL-1.0',
  ],
  ['without a licence', (all) => void delete all[0]?.licenses, '@borewit/text-codec@0.2.3: licence unknown'],
  ['with another checksum', (all) => void Object.assign(all[0] ?? {}, { hashes: [] }), '@borewit/text-codec@0.2.3: checksum missing'],
])('exit 1 for an SBOM %s', async (_, change, problem) => {
  expect(await checkSbom(await sbomWith(change))).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining(problem) })
})

interface Component {
  name: string
  version: string
  purl: string
  licenses?: unknown
}

const component = ({ name }: { name: string }): Component => ({
  name,
  version: '1.0.0',
  purl: `pkg:npm/${name}@1.0.0`,
  licenses: [{ license: { id: 'MIT' } }],
})

let written: Promise<string> | undefined

async function sbomWith(change: (components: Component[]) => void): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'dms-sbom-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const file = join(folder, 'sbom.json')
  // npm builds it once for all tests here.
  written ??= script('sbom.js', [file]).then(() => readFile(file, 'utf8'))
  const sbom = JSON.parse(await written) as { components: Component[] }
  change(sbom.components)
  await writeFile(file, JSON.stringify(sbom))
  return file
}

interface Lock {
  packages: Record<string, Record<string, unknown>>
}

async function copyWith(change: (lock: Lock) => void): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'dms-dependencies-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  await writeFile(join(folder, 'package.json'), await readFile(join(root, 'package.json')))
  const lock = JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8')) as Lock
  change(lock)
  await writeFile(join(folder, 'package-lock.json'), JSON.stringify(lock))
  return folder
}

const check = (folder: string) => script('check-dependencies.js', [folder])
const checkSbom = (file: string) => script('check-sbom.js', [file])

const script = (name: string, args: readonly string[]) =>
  new Promise<{ code: number; stdout: string; stderr: string }>((resolve) => {
    const child = execFile(process.execPath, [join(root, '.ci', name), ...args], (_, stdout, stderr) =>
      resolve({ code: child.exitCode ?? -1, stdout, stderr }),
    )
  })
