/** Packs dms, installs it globally as users do, and runs it. Tests when `bin/dms.js` uses the build. */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { builtinModules } from 'node:module'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import sharp from 'sharp'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { upload } from '../support/app.ts'
import { heicOf, scan, sevenZip } from '../support/data/files.ts'
import { pageImage, textPdf } from '../support/data/page-image.ts'
import { emptyPlace } from '../support/places.ts'
import { processTree } from '../support/processes/process-tree.ts'
import { bareEnvironment, hasProgram } from '../support/processes/run.ts'
import { startNpmRegistry } from '../support/servers/npm-registry.ts'
import { startServed } from '../support/servers/served.ts'

const start = promisify(execFile)
const root = fileURLToPath(new URL('../..', import.meta.url))

/** Folder of the globally installed package, and the command that npm linked to it. */
interface Installation {
  folder: string
  package: string
  command: string
}

let installation: Promise<Installation> | undefined

/** Packs dms, installs it globally from a registry on 127.0.0.1, and prunes it; once for all tests of this file. */
async function install(): Promise<Installation> {
  const folder = await mkdtemp(join(tmpdir(), 'dms-package-'))
  installed.push(folder)
  // The database of root's server runs as another user, who must be able to read the package.
  await chmod(folder, 0o755)
  const sources = await copyOfSources(folder)
  await mkdir(join(sources, 'dist'))
  await writeFile(join(sources, 'dist/left-over.js'), '')
  const registry = await startNpmRegistry(root)
  const prefix = join(folder, 'global')
  const npm = { HOME: folder, npm_config_registry: registry.url, npm_config_update_notifier: 'false', npm_config_audit: 'false' }
  const env = machineEnvironment(npm)
  try {
    await start('npm', ['pack', '--pack-destination', folder], { cwd: sources, env: bareEnvironment(npm), timeout: 120_000 })
    const [archive = ''] = (await readdir(folder)).filter((name) => name.endsWith('.tgz'))
    const options = ['--global', '--prefix', prefix, '--cache', join(folder, 'cache'), '--fetch-retries=0']
    await start('npm', ['install', ...options, join(folder, archive)], { cwd: folder, env, timeout: 240_000 })
  } finally {
    await registry.stop()
    await Promise.all([sources, join(folder, 'cache')].map((path) => rm(path, { recursive: true, force: true })))
  }
  const installation = { folder, package: join(prefix, 'lib/node_modules/dms'), command: join(prefix, 'bin/dms') }
  await start(process.execPath, [join(installation.package, 'bin/prune-packages.js')], { env })
  return installation
}

const installed: string[] = []
afterAll(() => Promise.all(installed.map((folder) => rm(folder, { recursive: true, force: true }))))

/** Returns an environment with the Node of the machine, not the one in node_modules. */
const machineEnvironment = (variables: Record<string, string>): Record<string, string> => {
  const env = bareEnvironment(variables)
  return {
    ...env,
    PATH: (env.PATH ?? '')
      .split(delimiter)
      .filter((path) => !path.includes('node_modules'))
      .join(delimiter),
  }
}

const installOnce = () => {
  installation ??= install()
  return installation
}

test('npm install --global of the packed dms installs the build, without sources, tests and development packages', async () => {
  const { package: folder } = await installOnce()
  expect((await readdir(folder)).sort()).toEqual([
    ...[
      'LICENSE',
      'README.md',
      'alerts.example.yml',
      'bin',
      'config.example.toml',
      'deploy',
      'dist',
      'docs',
      'node_modules',
      'package.json',
    ],
  ])
  expect(existsSync(join(folder, 'dist/left-over.js'))).toBe(false)
  expect(existsSync(join(folder, 'dist/types/client/remote.d.ts'))).toBe(true)
  expect(await packagesIn(join(folder, 'dist'))).toEqual([
    ...['@hyzyla/pdfium', '@imagemagick/magick-wasm', 'libarchive-wasm', 'pdfjs-dist/legacy/build/pdf.mjs', 'sharp', 'tesseract.js'],
  ])
  const lock = JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8')) as { packages: Record<string, { dev?: boolean }> }
  const development = Object.entries(lock.packages).flatMap(([path, { dev }]) => (dev ? [path] : []))
  expect(development).toContain('node_modules/vitest')
  const present = development.filter((path) => existsSync(join(folder, path)))
  expect(present).toEqual([])
  const { stdout } = await start('du', ['-s', '--block-size=1MB', folder])
  expect(Number.parseInt(stdout, 10)).toBeLessThan(400)
}, 300_000)

test('the installed dms prints version and help, migrates, stores, extracts and searches, and is a client', async () => {
  const { package: installedPackage, command } = await installOnce()
  const folder = await temporary()
  const { databaseUrl, dataDir } = await emptyPlace()
  const env = machineEnvironment({ DATABASE_URL: databaseUrl, DMS_DATA_DIR: dataDir, DMS_STORAGE_MIN_FREE: '0B' })
  const dms = async (...words: string[]): Promise<string> => {
    const { stdout } = await start(command, words, { cwd: folder, env, timeout: 60_000 })
    return stdout
  }
  expect(JSON.parse(await dms('version', '--json')).client.version).toBe(await dms('--version').then((text) => text.trim()))
  expect(await dms('--help')).toMatch(/^Usage: dms /)
  expect(await dms('config', 'init', '--to', join(folder, 'config.toml'))).toContain('config.toml')
  expect(await dms('migrate', '-o', 'id')).toContain('0001_users\n')
  expect(await dms('migrate', '-o', 'id')).toBe('')
  await writeFile(join(folder, 'letter.txt'), 'Harbour fees for 2026')
  await writeFile(join(folder, 'plan.pdf'), textPdf([['Lighthouse']]))
  const { gray, width, height } = await pageImage(['Breakwater'])
  await writeFile(
    join(folder, 'scan.png'),
    await sharp(gray, { raw: { width, height, channels: 1 } })
      .png()
      .toBuffer(),
  )
  await dms('users', 'add', '--username', 'ada', '--email', 'ada@example.org', '--no-password')
  await dms('--as', 'ada', 'documents', 'upload', ...['letter.txt', 'plan.pdf', 'scan.png'].map((name) => join(folder, name)), '-q')
  await dms('worker', '--once', '-q')
  const titles = async (word: string) => JSON.parse(await dms('--as', 'ada', 'search', 'query', word, '--json')).map(titleOf)
  expect([await titles('harbour'), await titles('lighthouse'), await titles('breakwater')]).toEqual([['letter'], ['plan'], ['scan']])

  const program = "import('dms').then(({ remoteClient }) => console.log(typeof remoteClient))"
  expect((await start(process.execPath, ['-e', program], { cwd: dirname(installedPackage), env })).stdout).toBe('function\n')
}, 300_000)

/** Runs a server of the installed dms. */
async function withInstalledServer(use: (served: Awaited<ReturnType<typeof startServed>>) => Promise<void>): Promise<void> {
  const { command } = await installOnce()
  const { PATH = '' } = machineEnvironment({})
  const served = await startServed({ program: command, env: { PATH } })
  try {
    await use(served)
  } finally {
    await served.stop()
    await served.remove()
  }
}

test('the installed dms serves with its embedded database: an upload is downloaded', async () => {
  await withInstalledServer(async (served) => {
    const { id } = await upload(served.client, 'letter.txt', 'Harbour fees for 2026')
    const answer = await fetch(`${served.url}/api/documents/${id}/download`, { headers: { authorization: `Bearer ${served.token}` } })
    expect([answer.status, await answer.text()]).toEqual([200, 'Harbour fees for 2026'])
    expect(await served.stop()).toBe(0)
  })
}, 300_000)

test('the installed dms reads in the sandbox, with the modules of its packages: archives, other images, barcodes, damaged PDFs', async () => {
  await withInstalledServer(async (served) => {
    const damaged = textPdf([['Lighthouse']])
    damaged.write('%PDE', 0, 'latin1')
    const files: [name: string, bytes: Buffer, content: string][] = [
      ['archive.7z', sevenZip, 'words in 7z'],
      ['scan.heic', await heicOf(await scan(['Breakwater'], { width: 620, height: 120 })), 'Breakwater'],
      ['damaged.pdf', Buffer.concat([Buffer.from('%PDF-\n'), Buffer.alloc(2000, 10), damaged]), 'Lighthouse'],
      ['stack.pdf', textPdf([['Pier'], ['Quay']]), 'Pier'],
    ]
    const ids = await Promise.all(
      files.map(async ([name, bytes]) => (await upload(served.client, name, bytes, name === 'stack.pdf' ? { split: 'barcode' } : {})).id),
    )
    for (const [i, id] of ids.entries()) {
      await expect
        .poll(async () => (await served.client.documents.get(id)).status, { timeout: 60_000, interval: 200 })
        .toMatch(/completed|failed/)
      const { status, content, warnings } = await served.client.documents.get(id)
      expect
        .soft({ status, content, warnings })
        .toEqual({ status: 'completed', content: expect.stringContaining(files[i]![2]), warnings: [] })
    }
    // Only Linux lists the options of processes.
    const readers = processTree(served.pid).flatMap(({ command: line }) => (line.includes('/dist/child.js') ? [line.split(' ')] : []))
    expect(readers.length > 0).toBe(process.platform === 'linux')
    for (const words of readers) {
      expect(words).toContain('--permission')
      expect(words).not.toContain('--allow-net')
      const folders = words.flatMap((word) => /^--allow-fs-\w+=(.*)/.exec(word)?.[1] ?? [])
      expect(
        folders.filter((path) => !/\/(dist|package\.json|node_modules|tessdata|4\.0\.0_best_int|reader-[^/]+(\/own)?)$/.test(path)),
      ).toEqual([])
    }
  })
}, 300_000)

const hasDpkg = hasProgram('dpkg-deb')
if (!hasDpkg) process.stderr.write('skipped: without dpkg-deb there is no Debian package\n')

test.skipIf(!hasDpkg)(
  'the Debian package runs dms with its bundled Node, and its units and files belong to root',
  async () => {
    const { package: folder } = await installOnce()
    const place = await temporary()
    const env = machineEnvironment({ DPKG_DEB_COMPRESSOR_TYPE: 'none' })
    await start(join(root, 'deploy/deb/build.sh'), [folder], { cwd: place, env, timeout: 120_000 })
    const [archive = ''] = await readdir(place)
    expect(archive).toMatch(/^dms_1\.0\.0~rc\.1_\w+\.deb$/)
    const { stdout: listing } = await start('dpkg-deb', ['--contents', archive], { cwd: place, maxBuffer: 50_000_000 })
    const lines = listing.trimEnd().split('\n')
    expect(lines.filter((line) => !line.includes(' root/root '))).toEqual([])
    const paths = lines.map((line) => / \.\/(\S*)/.exec(line)?.[1])
    expect(paths).toEqual(expect.arrayContaining(['usr/bin/dms', 'usr/lib/systemd/system/dms.service', 'etc/logrotate.d/dms']))
    await start('dpkg-deb', ['--raw-extract', archive, 'root'], { cwd: place, timeout: 120_000 })
    for (const script of ['postinst', 'prerm', 'postrm']) await start('sh', ['-n', join('root/DEBIAN', script)], { cwd: place })
    const { stdout: version } = await start(join(place, 'root/usr/bin/dms'), ['version', '--json'], {
      env: { ...env, PATH: '/usr/bin:/bin' },
    })
    expect(JSON.parse(version).client).toMatchObject({ version: '1.0.0-rc.1', node: expect.stringMatching(/^v?26/) })
  },
  300_000,
)

test('dms runs the build of exactly its sources, else the sources; without build packages none is made', async () => {
  const sources = await copyOfSources(await temporary())
  const run = async (...line: string[]): Promise<string> =>
    (await start(process.execPath, line, { cwd: sources, env: bareEnvironment() })).stdout
  const program = join(sources, 'commands/program.ts')
  const text = await readFile(program, 'utf8')
  const summary = 'A document management server: '
  // What is only in the build, or only in the sources, tells them apart.
  const says = async (what: string) => (await run('bin/dms.js', '--help')).includes(what)
  expect(await says(summary)).toBe(true)

  expect(await run('build.js')).toMatch(/^dist: \d+ files/)
  expect(await run('build.js')).toBe('')
  await writeFile(join(sources, 'dist/program.js'), (await readFile(join(sources, 'dist/program.js'), 'utf8')).replace(summary, 'Built. '))
  expect(await says('Built.')).toBe(true)
  expect(await run('bin/dms.js', 'help')).toContain('Built.')

  await writeFile(program, text.replace(summary, 'Changed. '))
  expect(await says('Changed.')).toBe(true)
  expect(await run('build.js')).toMatch(/^dist: \d+ files/)
  expect(await says('Changed.')).toBe(true)

  // Of a file that only some commands need, these alone have to know.
  await writeFile(join(sources, 'migrations/9999_more.ts'), 'export const up = async () => {}')
  await writeFile(
    join(sources, 'dist/program.js'),
    (await readFile(join(sources, 'dist/program.js'), 'utf8')).replace('Changed.', 'Built.'),
  )
  expect(await says('Built.')).toBe(true)
  expect(await run('bin/dms.js', 'help')).toContain('Changed.')

  await rm(join(sources, 'node_modules'))
  expect(await run('build.js', '--if-possible')).toMatch(/^not built/)
  await expect(run('build.js')).rejects.toMatchObject({ code: 1 })
}, 120_000)

const titleOf = ({ title }: { title: string }) => title

async function temporary(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'dms-package-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}

/** Builds and packs in a separate folder, because other tests run the build of this one meanwhile. */
async function copyOfSources(folder: string): Promise<string> {
  const copy = join(folder, 'sources')
  const names = [
    'LICENSE',
    'README.md',
    'alerts.example.yml',
    'config.example.toml',
    'package.json',
    'package-lock.json',
    'build.js',
    'docs',
  ]
  for (const name of [...names, 'tsconfig.json', 'tsconfig.build.json', 'bin', 'commands', 'deploy', 'migrations', 'src'])
    await cp(join(root, name), join(copy, name), { recursive: true })
  await symlink(join(root, 'node_modules'), join(copy, 'node_modules'))
  return copy
}

/** Returns imports of the build that are neither among its files nor built-in modules of Node. */
async function packagesIn(folder: string): Promise<string[]> {
  const files = (await readdir(folder, { recursive: true })).filter((file) => file.endsWith('.js'))
  const texts = await Promise.all(files.map((file) => readFile(join(folder, file), 'utf8')))
  const names = texts.flatMap((text) => [...text.matchAll(/^import (?:.+ from )?"([^."][^"]*)"|\bimport\("([^."][^"]*)"\)/gm)])
  const all = new Set(
    names.map(([, one, other]) => one ?? other ?? '').filter((name) => !builtinModules.includes(name.replace(/^node:/, ''))),
  )
  return [...all].sort()
}
