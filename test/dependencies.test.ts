/** The check of the packages that dms is made of: it accepts ours, and refuses what it is there to refuse. */
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'

const root = fileURLToPath(new URL('..', import.meta.url))

test('exit 0 for the packages of this version', async () => {
  expect(await check(root)).toMatchObject({ code: 0, stderr: '' })
})

test.each([
  ['a version with a known hole', { version: '4.1.392' }, 'node_modules/pdfjs-dist: 4.1.392 has a known hole'],
  ['a licence that binds others', { license: 'AGPL-3.0-only' }, 'node_modules/pdfjs-dist: licence AGPL-3.0-only'],
  ['no licence', { license: undefined }, 'node_modules/pdfjs-dist: licence unknown'],
  ['no checksum', { integrity: undefined }, 'node_modules/pdfjs-dist: no checksum'],
  ['a version that package.json does not name', { version: '99.0.0' }, 'pdfjs-dist is 99.0.0, package.json says'],
])('exit 1 for a package with %s', async (_, change, problem) => {
  const folder = await copyWith((lock) => Object.assign(lock.packages['node_modules/pdfjs-dist'] ?? {}, change))
  expect(await check(folder)).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining(problem) })
})

test('exit 1 for a mended major below an unmended one', async () => {
  const folder = await copyWith((lock) => {
    lock.packages['node_modules/minimatch'] = { version: '9.0.6', license: 'ISC', integrity: 'sha512-x' }
  })
  expect(await check(folder)).toMatchObject({ code: 1, stderr: expect.stringContaining('node_modules/minimatch: 9.0.6 has a known hole') })
})

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

const check = (folder: string) =>
  new Promise<{ code: number; stdout: string; stderr: string }>((resolve) => {
    const child = execFile(process.execPath, [join(root, '.ci/check-dependencies.js'), folder], (_, stdout, stderr) =>
      resolve({ code: child.exitCode ?? -1, stdout, stderr }),
    )
  })
