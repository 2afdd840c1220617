/** The programs of the embedded PostgreSQL run from the package; the data folder has a copy only if their account cannot reach it. */
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { loadPackage, type PostgresPackage, prepareBinaries } from '../../src/db/embedded/binaries.ts'
import { environmentOf } from '../../src/db/embedded/cluster.ts'

const isRoot = process.getuid?.() === 0
const top = mkdtempSync(join(tmpdir(), 'dms-binaries-'))
let unlinked: PostgresPackage

/** Copies the package as npm installs it without install scripts: without links. */
beforeAll(async () => {
  chmodSync(top, 0o711)
  const installed = await loadPackage()
  const folder = join(top, 'package')
  execFileSync('cp', ['-a', installed.folder, folder])
  const links = JSON.parse(readFileSync(join(folder, 'native/pg-symlinks.json'), 'utf8')) as { target: string }[]
  for (const { target } of links) rmSync(join(folder, target), { force: true })
  unlinked = { ...installed, folder }
})
afterAll(() => rmSync(top, { recursive: true, force: true }))

function emptyDataDir(name: string): string {
  const folder = join(top, name)
  mkdirSync(folder, { mode: 0o711 })
  return folder
}

test('a package without links runs in place; the data folder holds only the links', async () => {
  const dataDir = emptyDataDir('linked')
  const binaries = await prepareBinaries(dataDir, unlinked, undefined)
  expect(binaries).toEqual({ folder: join(unlinked.folder, 'native'), links: join(dataDir, `postgres-${unlinked.version}.links`) })
  for (const program of ['postgres', 'initdb']) {
    const version = execFileSync(join(binaries.folder, 'bin', program), ['--version'], { env: environmentOf(binaries), encoding: 'utf8' })
    expect(version).toContain(` ${unlinked.major}.`)
  }
  expect(readdirSync(dataDir)).toEqual([`postgres-${unlinked.version}.links`])
  expect(await prepareBinaries(dataDir, unlinked, undefined)).toEqual(binaries)
})

test.skipIf(!isRoot)(`an account that cannot reach the package gets a copy${isRoot ? '' : ' (skipped: needs root)'}`, async () => {
  const dataDir = emptyDataDir('copied')
  const [uid, gid] = ['-u', '-g'].map((flag) => Number(execFileSync('id', [flag, 'nobody']))) as [number, number]
  chmodSync(unlinked.folder, 0o700)
  const binaries = await prepareBinaries(dataDir, unlinked, { name: 'nobody', uid, gid })
  chmodSync(unlinked.folder, 0o755)
  expect(binaries).toEqual({ folder: join(dataDir, `postgres-${unlinked.version}`), links: null })
  const run = { uid, gid, cwd: '/', env: environmentOf(binaries), encoding: 'utf8' } as const
  expect(execFileSync(join(binaries.folder, 'bin/postgres'), ['--version'], run)).toContain(` ${unlinked.major}.`)
})
