/** The package as npm makes it, elsewhere than this folder: built, without sources, tests and tools. And when a build counts. */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { cp, mkdir, mkdtemp, readdir, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises'
import { builtinModules } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import sharp from 'sharp'
import { expect, onTestFinished, test } from 'vitest'
import { pageImage, textPdf } from '../support/data/page-image.ts'
import { emptyPlace } from '../support/places.ts'
import { bareEnvironment } from '../support/processes/run.ts'

const start = promisify(execFile)
const root = fileURLToPath(new URL('../..', import.meta.url))

test('the packed dms says its version and help, migrates, stores, reads and finds, and is a client for others', async () => {
  const folder = await temporary()
  const sources = await copyOfSources(folder)
  const npm = bareEnvironment({ HOME: folder, npm_config_offline: 'true', npm_config_update_notifier: 'false' })
  await mkdir(join(sources, 'dist'))
  await writeFile(join(sources, 'dist/left-over.js'), '')
  await start('npm', ['pack', '--pack-destination', folder], { cwd: sources, env: npm, timeout: 120_000 })
  const [archive = ''] = (await readdir(folder)).filter((name) => name.endsWith('.tgz'))
  const installed = join(folder, 'app/node_modules/dms')
  await mkdir(installed, { recursive: true })
  await start('tar', ['-xzf', join(folder, archive), '--strip-components=1', '-C', installed])
  // What npm would put beside it, without asking a registry.
  await symlink(await realpath(join(root, 'node_modules')), join(installed, 'node_modules'))
  expect((await readdir(installed)).sort()).toEqual([
    ...['LICENSE', 'README.md', 'alerts.example.yml', 'bin', 'config.example.toml', 'deploy', 'dist', 'node_modules', 'package.json'],
  ])
  expect(existsSync(join(installed, 'dist/left-over.js'))).toBe(false)
  expect(existsSync(join(installed, 'dist/types/client/remote.d.ts'))).toBe(true)
  expect(await packagesIn(join(installed, 'dist'))).toEqual([
    ...['@hyzyla/pdfium', '@node-rs/argon2', 'pdfjs-dist/legacy/build/pdf.mjs', 'sharp', 'tesseract.js'],
  ])

  const { databaseUrl, dataDir } = await emptyPlace()
  const env = bareEnvironment({ DATABASE_URL: databaseUrl, DMS_DATA_DIR: dataDir, DMS_STORAGE_MIN_FREE: '0B' })
  const dms = async (...words: string[]): Promise<string> => {
    const { stdout } = await start(process.execPath, [join(installed, 'bin/dms.js'), ...words], { cwd: folder, env, timeout: 60_000 })
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
  expect((await start(process.execPath, ['-e', program], { cwd: join(folder, 'app'), env })).stdout).toBe('function\n')
}, 240_000)

test('dms runs the build of exactly its sources, else the sources; without the packages for a build none is made', async () => {
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

/** What is built and packed, in a folder of its own: others run the build of this one meanwhile. */
async function copyOfSources(folder: string): Promise<string> {
  const copy = join(folder, 'sources')
  const names = ['LICENSE', 'README.md', 'alerts.example.yml', 'config.example.toml', 'package.json', 'package-lock.json', 'build.js']
  for (const name of [...names, 'tsconfig.json', 'tsconfig.build.json', 'bin', 'commands', 'deploy', 'migrations', 'src'])
    await cp(join(root, name), join(copy, name), { recursive: true })
  await symlink(join(root, 'node_modules'), join(copy, 'node_modules'))
  return copy
}

/** What the files of a build import that is neither among them nor a part of Node. */
async function packagesIn(folder: string): Promise<string[]> {
  const files = (await readdir(folder, { recursive: true })).filter((file) => file.endsWith('.js'))
  const texts = await Promise.all(files.map((file) => readFile(join(folder, file), 'utf8')))
  const names = texts.flatMap((text) => [...text.matchAll(/^import (?:.+ from )?"([^."][^"]*)"|\bimport\("([^."][^"]*)"\)/gm)])
  const all = new Set(
    names.map(([, one, other]) => one ?? other ?? '').filter((name) => !builtinModules.includes(name.replace(/^node:/, ''))),
  )
  return [...all].sort()
}
