/** Files of the data folder belong to one user: root acts as the owner, and a file that this user cannot read stops nothing. */
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, chownSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { bareEnvironment, executable, type RunOptions, run } from '../../support/processes/run.ts'

const isRoot = process.getuid?.() === 0
const ids = (name: string) => ['-u', '-g'].map((flag) => Number(execFileSync('id', [flag, name]))) as [number, number]
const [uid, gid] = isRoot ? ids('nobody') : [process.getuid?.() ?? -1, process.getgid?.() ?? -1]

function canRunProgram(): boolean {
  try {
    execFileSync(process.execPath, ['--check', executable], { uid, gid, cwd: '/', stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

const skipReason = isRoot && !canRunProgram() ? ' (skipped: user nobody cannot read this checkout)' : ''
const rootSkipReason = isRoot ? skipReason : ' (skipped: needs root)'

const top = mkdtempSync(join(tmpdir(), 'dms-owner-'))
const dataDir = join(top, 'data')
const dms = (words: string, options: RunOptions = {}) =>
  run([...words.split(' '), '--data-dir', dataDir, '--json'], { timeout: 60_000, ...options })

const upload = async (name: string, text: string): Promise<string> => {
  const path = join(top, name)
  writeFileSync(path, text, { mode: 0o644 })
  expect(await dms(`documents upload ${path}`)).toMatchObject({ code: 0 })
  return path
}

const walk = (folder: string): string[] =>
  readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    return entry.isDirectory() ? [path, ...walk(path)] : [path]
  })

beforeAll(async () => {
  if (skipReason !== '') return
  chmodSync(top, 0o777)
  mkdirSync(dataDir, { mode: 0o700 })
  chownSync(dataDir, uid, gid)
  expect(await dms('migrate')).toMatchObject({ code: 0 })
  expect(await dms('users add --username admin --email admin@example.org --role admin --no-password')).toMatchObject({ code: 0 })
}, 120_000)

afterAll(() => rmSync(top, { recursive: true, force: true }))

describe.skipIf(rootSkipReason !== '')(`root on the data folder of another user${rootSkipReason}`, () => {
  test('migrate, upload, check, doctor and backup leave only files of the owner', async () => {
    await upload('one.txt', 'Harbour fees')
    expect(await dms('check')).toMatchObject({ code: 0 })
    expect(await dms('doctor --only access,storage,database')).toMatchObject({ code: 0 })
    expect(await dms(`backup create --to ${top}/one.tar`)).toMatchObject({ code: 0 })
    const foreign = [dataDir, ...walk(dataDir), `${top}/one.tar`].filter((path) => statSync(path).uid !== uid)
    expect(foreign).toEqual([])
  })

  test('the audit log names root', async () => {
    const { stdout } = await dms('audit list')
    expect(JSON.parse(stdout)).toContainEqual(expect.objectContaining({ via: 'cli:root', action: 'POST /api/documents/upload' }))
  })

  test('a file that only root can read: exit 1 with the command that passes it, and standard input is accepted', async () => {
    const path = join(top, 'private.txt')
    writeFileSync(path, 'for root', { mode: 0o600 })
    const { code, stdout } = await dms(`documents upload ${path}`)
    expect([code, stdout]).toEqual([
      1,
      expect.stringContaining(`dms documents upload - --stdin-name private.txt --data-dir ${dataDir} < ${path}`),
    ])
    const input = readFileSync(path, 'utf8')
    expect(await dms('documents upload - --stdin-name private.txt', { input })).toMatchObject({ code: 0 })
  })

  test('exports and downloads into a folder that only root can write: the error says that root acts as the owner', async () => {
    const folder = join(top, 'root-exports')
    mkdirSync(folder, { mode: 0o700 })
    await upload('two.txt', 'Pier fees')
    const [{ id }] = JSON.parse((await dms('documents list --limit 1')).stdout)
    const exported = await dms(`documents export --to ${folder}/all`)
    expect([exported.code, exported.stderr]).toEqual([2, expect.stringContaining('root acts as')])
    const downloaded = await dms(`documents download ${id} --to ${folder}/two.txt`)
    expect([downloaded.code, downloaded.stdout]).toEqual([1, expect.stringContaining('permission denied; fix: root acts as')])
  })

  test('backup.path that only root can write: doctor warns with the command for root; without it, backups are in the data folder', async () => {
    const folder = join(top, 'root-backups')
    mkdirSync(folder, { mode: 0o755 })
    const { stdout } = await dms('doctor --only backup', { env: { DMS_BACKUP_PATH: folder } })
    expect(stdout).toContain(`as root: install -d -o nobody -m 0700 '${folder}'`)
    const { code, stdout: created } = await dms('backup create')
    expect([code, JSON.parse(created)]).toMatchObject([0, { place: expect.stringContaining(join(dataDir, 'backups/dms-')) }])
  })

  test('settings that only root can read: backup, restore, reindex and the 78 of an empty folder use them', async () => {
    const home = join(top, 'root-home')
    const [restored, empty, archive] = [join(top, 'restored'), join(top, 'empty'), join(top, 'settings.tar')]
    mkdirSync(join(home, '.config/dms'), { recursive: true, mode: 0o700 })
    for (const path of [restored, empty]) mkdirSync(path, { mode: 0o700 })
    for (const path of [restored, empty]) chownSync(path, uid, gid)
    const dmsAt = (folder: string, words: string) => {
      writeFileSync(join(home, '.config/dms/config.toml'), `data_dir = "${folder}"\n[log]\nlevel = "error"\n`, { mode: 0o600 })
      return run(words.split(' '), { env: { HOME: home }, timeout: 60_000 })
    }
    expect(await dmsAt(dataDir, `backup create --include-config --to ${archive}`)).toMatchObject({ code: 0, stderr: '' })
    expect(await dmsAt(restored, `restore ${archive}`)).toMatchObject({ code: 0, stderr: expect.stringContaining('restoring') })
    expect(readdirSync(restored)).toContain('jwt_secret')
    const key = join(home, 'backup.key')
    writeFileSync(key, 'k'.repeat(64), { mode: 0o600 })
    const signed = await dmsAt(dataDir, `backup create --key-file ${key}`)
    expect(signed).toMatchObject({
      code: 78,
      stderr: `error: backup.key_file ${key} cannot be read (EACCES); fix: chown ${uid} '${key}'\n`,
    })
    expect(await dmsAt(empty, 'check')).toMatchObject({ code: 78, stderr: expect.stringContaining(`no dms data in ${empty}`) })
  })

  test('a place that only root can write: exit 1 with the reason and the fix', async () => {
    const folder = join(top, 'root')
    mkdirSync(folder, { mode: 0o700 })
    const { code, stderr } = await dms(`backup create --to ${folder}/b.tar`)
    expect([code, stderr]).toEqual([1, expect.stringContaining('root acts as \\"nobody\\", the owner of the data folder')])
  })

  test('files of root in the folder of another user: exit 78 with both commands', async () => {
    const mixed = join(top, 'mixed')
    mkdirSync(join(mixed, 'files'), { recursive: true })
    chownSync(mixed, uid, gid)
    const { code, stderr } = await run(['migrate', '--data-dir', mixed])
    expect([code, stderr]).toEqual([78, expect.stringContaining(`fix: chown -R nobody: ${mixed}`)])
    expect(readdirSync(mixed)).toEqual(['files'])
  })

  test('a user without root: 78 with sudo in a folder of another user, which is a candidate of a missing one', () => {
    const foreign = join(top, 'foreign')
    mkdirSync(foreign, { mode: 0o700 })
    const listDocuments = (folder: string) => {
      const env = bareEnvironment({ HOME: top, DMS_DATA_DIR: foreign, DMS_SERVER_PORT: '1' })
      return spawnSync(process.execPath, [executable, 'documents', 'list', '--data-dir', folder], {
        uid,
        gid,
        cwd: '/',
        env,
        encoding: 'utf8',
      })
    }
    const error = `error: ${foreign} belongs to user "root"; fix: sudo dms COMMAND\n`
    expect(listDocuments(foreign)).toMatchObject({ status: 78, stderr: error })
    mkdirSync(join(foreign, 'postgres'), { mode: 0o700 })
    chownSync(foreign, uid, gid)
    const mixed = `error: ${foreign}/postgres belongs to user "root"; fix: as root: chown -R nobody: ${foreign}\n`
    expect(listDocuments(foreign)).toMatchObject({ status: 78, stderr: mixed })
    chownSync(foreign, 0, 0)
    const candidate = `data folder: ${foreign} of user "root" (sudo dms --data-dir ${foreign} COMMAND)`
    expect(listDocuments(join(top, 'mistyped'))).toMatchObject({ status: 78, stderr: expect.stringContaining(candidate) })
  })

  test('a folder of root: root stays root', async () => {
    const own = join(top, 'own')
    expect(await run(['migrate', '--data-dir', own], { timeout: 60_000 })).toMatchObject({ code: 0 })
    expect(statSync(own).uid).toBe(0)
    expect(await run(['doctor', '--only', 'access', '--data-dir', own], { timeout: 60_000 })).toMatchObject({ code: 0 })
  })
})

describe.skipIf(skipReason !== '')(`a stored file that its owner cannot read${skipReason}`, () => {
  let stored = ''

  beforeAll(async () => {
    await upload('two.txt', 'Mooring')
    await upload('three.txt', 'Pilotage')
    stored = walk(join(dataDir, 'files')).find((path) => /[0-9a-f]{64}\./.test(path) && readFileSync(path, 'utf8') === 'Mooring') ?? ''
    chmodSync(stored, 0)
  })
  afterAll(() => chmodSync(stored, 0o600))

  test('check: one finding, exit 3', async () => {
    const { code, stdout } = await dms('check --sample 100%')
    const { items } = JSON.parse(stdout) as { items: object[] }
    expect([code, items]).toEqual([
      3,
      [expect.objectContaining({ path: stored, message: expect.stringContaining('cannot be read: EACCES') })],
    ])
  })

  test('backup create: every other file is in the archive, exit 3', async () => {
    const { code, stdout, stderr } = await dms(`backup create --to ${top}/two.tar`)
    expect([code, stderr]).toEqual([3, expect.stringContaining('cannot be read: permission denied')])
    expect(JSON.parse(stdout)).toMatchObject({ damaged: 1 })
    expect((await run(['backup', 'verify', `${top}/two.tar`])).code).toBe(3)
  })

  test('backup create --format dir: an intact copy of an earlier run stays, exit 3', async () => {
    const create = () => dms(`backup create --format dir --to ${top}/mirror`)
    chmodSync(stored, 0o600)
    expect((await create()).code).toBe(0)
    chmodSync(stored, 0)
    expect((await create()).code).toBe(0)
    expect((await run(['backup', 'verify', `${top}/mirror`])).code).toBe(0)
  })

  test('documents export: every other file is exported, exit 3', async () => {
    const { code, stdout } = await dms(`documents export --to ${dataDir}/export`)
    expect([code, JSON.parse(stdout)]).toMatchObject([3, { failed: 1 }])
    expect(JSON.parse(stdout).created).toBeGreaterThan(0)
  })

  test('doctor: names the file, and chown as the fix', async () => {
    const { code, stdout } = await dms('doctor --only access')
    expect([code, stdout]).toEqual([3, expect.stringContaining(stored)])
    expect(stdout).toContain('chown -R')
  })
})
