/** The package as npm makes it, elsewhere than this folder: compiled, without sources, tests and tools. */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { emptyPlace } from './support/places.ts'
import { bareEnvironment } from './support/run.ts'

const start = promisify(execFile)
const root = fileURLToPath(new URL('..', import.meta.url))

test('the packed dms says its version and help, migrates, stores, reads and finds, and is a client for others', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'dms-package-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const npm = bareEnvironment({ HOME: folder, npm_config_offline: 'true', npm_config_update_notifier: 'false' })
  await start('npm', ['pack', '--pack-destination', folder], { cwd: root, env: npm, timeout: 120_000 })
  const [archive = ''] = (await readdir(folder)).filter((name) => name.endsWith('.tgz'))
  const installed = join(folder, 'app/node_modules/dms')
  await mkdir(installed, { recursive: true })
  await start('tar', ['-xzf', join(folder, archive), '--strip-components=1', '-C', installed])
  // What npm would put beside it, without asking a registry.
  await symlink(join(root, 'node_modules'), join(installed, 'node_modules'))
  expect((await readdir(installed)).sort()).toEqual([
    ...['LICENSE', 'README.md', 'alerts.example.yml', 'bin', 'config.example.toml', 'deploy', 'dist', 'node_modules', 'package.json'],
  ])
  expect(existsSync(join(installed, 'dist/test'))).toBe(false)

  const { databaseUrl, dataDir } = await emptyPlace()
  const env = bareEnvironment({ DATABASE_URL: databaseUrl, DMS_DATA_DIR: dataDir, DMS_STORAGE_MIN_FREE: '0B' })
  const dms = async (...words: string[]): Promise<string> => {
    const { stdout } = await start(process.execPath, [join(installed, 'bin/dms.js'), ...words], { cwd: folder, env, timeout: 60_000 })
    return stdout
  }
  expect(JSON.parse(await dms('version', '--json')).client.version).toBe(await dms('--version').then((text) => text.trim()))
  expect(await dms('--help')).toMatch(/^Usage: dms /)
  expect(await dms('migrate', '-o', 'id')).toContain('0001_users\n')
  expect(await dms('migrate', '-o', 'id')).toBe('')
  await writeFile(join(folder, 'letter.txt'), 'Harbour fees for 2026')
  await dms('users', 'add', '--username', 'ada', '--email', 'ada@example.org', '--no-password')
  await dms('--as', 'ada', 'documents', 'upload', join(folder, 'letter.txt'), '-q')
  await dms('worker', '--once', '-q')
  expect(JSON.parse(await dms('--as', 'ada', 'search', 'query', 'harbour', '--json'))).toMatchObject([{ title: 'letter' }])

  const program = "import('dms').then(({ remoteClient }) => console.log(typeof remoteClient))"
  expect((await start(process.execPath, ['-e', program], { cwd: join(folder, 'app'), env })).stdout).toBe('function\n')
}, 240_000)
