/** Damage of stored files and of backups is detected, reported in every run, and not copied over intact files. */
import { execFileSync, spawnSync } from 'node:child_process'
import { copyFile, cp, mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { openSource } from '../../../src/backup/backup-source.ts'
import { padToSize } from '../../../src/backup/create/copy-stored-files.ts'
import { filePath } from '../../../src/backup/manifest.ts'
import { quote } from '../../../src/log/escape.ts'
import { startApp, upload } from '../../support/app.ts'
import { connection, emptyPlace, folder, here, type Place, variables } from '../../support/places.ts'
import { bareEnvironment, executable } from '../../support/processes/run.ts'
import { storedPath } from '../../support/stored-path.ts'

async function oneDocument() {
  const started = await startApp()
  const place: Place = { databaseUrl: started.databaseUrl, dataDir: started.dataDir }
  const content = 'Harbour fees for 2026'
  const { id } = await upload(started.asAda, 'harbour.txt', content)
  await upload(started.asAda, 'other.txt', 'Other fees')
  const { sha256 } = await started.app.db.selectFrom('documents').select('sha256').where('id', '=', id).executeTakeFirstOrThrow()
  const lastSuccess = async () => {
    const { rows } = await sql<{ at: string }>`select last_success_at::text as at from runs where name = 'backup'`.execute(started.app.db)
    return rows[0]?.at ?? null
  }
  return { ...started, place, id, sha256, content, stored: await storedPath(started.app, sha256), lastSuccess }
}

const flipped = (content: string) => content.replace('fees', 'feet')

test('a warning for a name of a compressed file: the archive is not compressed', async () => {
  const { place, dataDir } = await oneDocument()
  const { code, stderr } = await here(place, ['backup', 'create', '-q', '--to', join(dataDir, 'all.tar.gz')])
  expect([code, stderr]).toEqual([0, expect.stringMatching(/^warning: .*all.tar.gz is a tar archive without compression; .*\n$/)])
  expect((await here(place, ['backup', 'create', '-q', '--to', join(dataDir, 'all.tar')])).stderr).toBe('')
})

test('1 for a temporary folder that is full: the error names it, and the archive is removed', async () => {
  const { place, asAda, dataDir } = await oneDocument()
  for (let number = 0; number < 10; number++) await upload(asAda, `${number}.txt`, `file ${number}`)
  // A limit of 512 or 1024 bytes, as of a full disk: the list of the stored files is longer.
  const line = ['-c', 'ulimit -f 1; exec "$0" "$@"', process.execPath, executable, 'backup', 'create', '--to', join(dataDir, 'all.tar')]
  const { status, stderr } = spawnSync('sh', line, { env: bareEnvironment(variables(place)), encoding: 'utf8' })
  expect([status, stderr]).toEqual([1, expect.stringMatching(/^error: .*: file too large\n$/)])
  expect(stderr).not.toContain('all.tar')
  expect((await readdir(dataDir)).filter((name) => name.startsWith('all.tar'))).toEqual([])
})

test('restore reports what it restored, and warns, if the search index cannot be built', async () => {
  const { place, dataDir } = await oneDocument()
  const archive = join(dataDir, 'all.tar')
  expect((await here(place, ['backup', 'create', '-q', '--to', archive])).code).toBe(0)
  const env = { DMS_SEARCH_ENGINE: 'meilisearch', DMS_MEILI_URL: 'http://127.0.0.1:1' }
  const { code, stdout, stderr } = await here(await emptyPlace(), ['restore', archive, '-o', 'json'], { env })
  expect([code, JSON.parse(stdout)]).toMatchObject([69, { documents: 2, failed: 0 }])
  expect(stderr).toContain('warning: everything is restored, but search does not find it yet')
})

describe('backup create --format dir', () => {
  test('a stored file with a flipped byte: exit 3 in every run, no last success; repaired bytes replace it', async () => {
    const { place, stored, content, sha256, dataDir, lastSuccess } = await oneDocument()
    const to = join(dataDir, 'mirror')
    const create = () => here(place, ['backup', 'create', '--format', 'dir', '--to', to])
    await writeFile(stored, flipped(content))
    for (let run = 0; run < 3; run++) {
      const { code, stderr } = await create()
      expect([code, stderr]).toEqual([3, expect.stringContaining(`stored file ${sha256} is corrupt`)])
      expect((await here(place, ['backup', 'verify', to])).code).toBe(3)
    }
    expect(await lastSuccess()).toBe(null)
    await writeFile(stored, content)
    expect(await create()).toMatchObject({ code: 0, stderr: '' })
    expect((await here(place, ['backup', 'verify', to])).code).toBe(0)
    expect(await lastSuccess()).not.toBe(null)
    expect((await here(await emptyPlace(), ['restore', to, '-q'])).code).toBe(0)
  })

  test('a byte flipped in the backup folder: the next run writes the file again', async () => {
    const { place, content, sha256, dataDir } = await oneDocument()
    const to = join(dataDir, 'mirror')
    const create = () => here(place, ['backup', 'create', '--format', 'dir', '--to', to])
    expect((await create()).code).toBe(0)
    await writeFile(join(to, filePath(sha256)), flipped(content))
    expect((await here(place, ['backup', 'verify', to])).code).toBe(3)
    expect((await create()).code).toBe(0)
    expect(await readFile(join(to, filePath(sha256)), 'utf8')).toBe(content)
    expect((await here(place, ['backup', 'verify', to])).code).toBe(0)
  })

  test('--no-files is not a success of the backup, but of the backup of tables, and has its own metric', async () => {
    const { place, app, dataDir, asStranger, lastSuccess } = await oneDocument()
    expect((await here(place, ['backup', 'create', '--no-files', '--to', join(dataDir, 'tables.tar')])).code).toBe(0)
    expect(await lastSuccess()).toBe(null)
    expect(await app.db.selectFrom('runs').select('name').execute()).toEqual([{ name: 'tables_backup' }])
    const metrics = await (await asStranger.send('GET', '/metrics')).text()
    expect(metrics).toContain('\n# HELP dms_tables_backup_last_success_timestamp_seconds Time of the last successful tables backup since')
  })

  test('a database that is read-only: the backup is valid, with a warning that its success is not recorded', async () => {
    const { place, dataDir, lastSuccess } = await oneDocument()
    const to = join(dataDir, 'mirror')
    const create = () => here(place, ['backup', 'create', '--format', 'dir', '--to', to])
    expect((await create()).code).toBe(0)
    const before = await lastSuccess()
    const client = await connection(place)
    await client.query(`alter database ${client.database} set default_transaction_read_only = on`)
    const { code, stderr } = await create()
    expect([code, stderr]).toEqual([0, expect.stringContaining('warning: not recorded as the last success: cannot execute INSERT')])
    expect((await here(place, ['backup', 'verify', to])).code).toBe(0)
    expect(await lastSuccess()).toBe(before)
  })

  test.each(['missing', 'of another length'])(
    'a stored file that is %s: the intact copy of an earlier run stays, and is told of with exit 3',
    async (how) => {
      const { place, stored, content, sha256, dataDir } = await oneDocument()
      const to = join(dataDir, 'mirror')
      const create = () => here(place, ['backup', 'create', '--format', 'dir', '--to', to])
      expect((await create()).code).toBe(0)
      if (how === 'missing') await rm(stored)
      else await writeFile(stored, content.slice(1))
      for (let run = 0; run < 2; run++) {
        const { code, stderr } = await create()
        expect([code, stderr]).toEqual([3, expect.stringContaining(`intact in the backup: ${join(to, filePath(sha256))}`)])
        expect(await readFile(join(to, filePath(sha256)), 'utf8')).toBe(content)
      }
      expect((await here(place, ['backup', 'verify', to])).code).toBe(0)
    },
  )

  test('a damaged or lost manifest: every command prints the command that restores it, and then succeeds', async () => {
    const { place, dataDir } = await oneDocument()
    const to = join(dataDir, 'backups', 'dms')
    const create = ['backup', 'create', '--format', 'dir']
    expect((await here(place, create)).code).toBe(0)
    const text = await readFile(join(to, 'manifest.json'), 'utf8')
    const [id = ''] = await readdir(join(to, 'data'))
    const fix = `fix: cp ${join(to, 'data', id, 'manifest.json')} ${join(to, 'manifest.json')}`
    const ending = async (args: string[], on = place) => {
      const { code, stderr } = await here(on, args)
      return [code, stderr.includes(fix)]
    }
    await writeFile(join(to, 'manifest.json'), text.slice(1))
    expect(await ending(create)).toEqual([1, true])
    expect(await ending(['restore', to, '-n'], await emptyPlace())).toEqual([1, true])
    expect(await ending(['backup', 'verify', to])).toEqual([3, true])
    expect(await ending(['backup', 'rehearse', to, '--to-database', (await emptyPlace()).databaseUrl])).toEqual([3, true])
    expect(await ending(['backup', 'list'])).toEqual([0, true])
    await rm(join(to, 'manifest.json'))
    expect(await ending(['backup', 'verify', to])).toEqual([3, true])
    await copyFile(join(to, 'data', id, 'manifest.json'), join(to, 'manifest.json'))
    expect((await here(place, ['backup', 'verify', to])).code).toBe(0)
    expect((await here(place, create)).code).toBe(0)
    const copy = join(dataDir, "the clerk's copy")
    await cp(to, copy, { recursive: true })
    await rm(join(copy, 'manifest.json'))
    const [, command = ''] = /fix: (cp .*)/.exec((await here(place, ['backup', 'verify', copy])).stderr) ?? []
    execFileSync('sh', ['-c', command])
    expect((await here(place, ['backup', 'verify', copy])).code).toBe(0)
    // Without a copy of the manifest, the backup is repeated into the folder, by the installation of the command line.
    await rm(join(copy, 'data'), { recursive: true })
    await writeFile(join(copy, 'manifest.json'), '')
    const { stderr } = await here(place, ['backup', 'verify', copy, '--data-dir', dataDir])
    expect(stderr).toContain(`dms backup create --format dir --to ${quote(copy)} --data-dir ${dataDir}, which keeps all intact files`)
  })

  test('Busy, not damage, for a reader of a folder that a backup updates meanwhile; 3 for tables that are gone', async () => {
    const { place, dataDir } = await oneDocument()
    const to = join(dataDir, 'mirror')
    const create = () => here(place, ['backup', 'create', '--format', 'dir', '--to', to])
    expect((await create()).code).toBe(0)
    const source = await openSource(to)
    const read: string[] = []
    const reading = async () => {
      for await (const { path, bytes } of source.entries()) {
        read.push(path)
        for await (const _ of bytes ?? []);
        if (read.length === 1) expect((await create()).code).toBe(0)
      }
    }
    await expect(reading()).rejects.toThrow(`backup create: already running (it has updated ${to})`)
    const [id = ''] = await readdir(join(to, 'data'))
    await rm(join(to, 'data', id, 'tables'), { recursive: true })
    expect((await here(place, ['backup', 'verify', to])).code).toBe(3)
  })

  test.each(['files', 'data'])('refuses a folder in which %s is a symbolic link, and leaves its target untouched', async (name) => {
    const { place, dataDir } = await oneDocument()
    const to = join(dataDir, 'mirror')
    const create = () => here(place, ['backup', 'create', '--format', 'dir', '--to', to])
    expect((await create()).code).toBe(0)
    const elsewhere = await folder()
    const other = join(elsewhere, 'aa', 'bb', 'thesis.txt')
    await mkdir(dirname(other), { recursive: true })
    await writeFile(other, 'mine')
    await rm(join(to, name), { recursive: true })
    await symlink(elsewhere, join(to, name))
    expect((await create()).code).toBe(7)
    expect(await readFile(other, 'utf8')).toBe('mine')
  })
})

test('an archive of a store with a flipped byte: exit 3, no last success', async () => {
  const { place, stored, content, dataDir, lastSuccess } = await oneDocument()
  await writeFile(stored, flipped(content))
  expect((await here(place, ['backup', 'create', '--to', join(dataDir, 'x.tar')])).code).toBe(3)
  expect(await lastSuccess()).toBe(null)
})

test('an unreadable sector or a shrinking file becomes zeros of the same length; a lost mount throws', async () => {
  async function* failing(code: string) {
    yield Buffer.from('abc')
    throw Object.assign(new Error(code), { code })
  }
  const read = async (source: AsyncIterable<Uint8Array>) => Buffer.concat(await Array.fromAsync(padToSize(source, 5))).toString()
  expect(await read(failing('EIO'))).toBe('abc\0\0')
  expect(
    await read(
      (async function* () {
        yield Buffer.from('abcd')
      })(),
    ),
  ).toBe('abcd\0')
  await expect(read(failing('ENOTCONN'))).rejects.toThrow('ENOTCONN')
})

test('prune keeps the newest archive without damaged files, beside --keep others that have them', async () => {
  const { place, stored, content, dataDir } = await oneDocument()
  const backupFolder = join(dataDir, 'backups')
  await mkdir(backupFolder, { mode: 0o700 })
  const names = [1, 2, 3, 4].map((day) => `dms-2026010${day}T000000Z.tar`)
  const prune = async () => {
    expect((await here(place, ['backup', 'prune', '--keep', '1', '-y'])).code).toBe(0)
    return (await readdir(backupFolder)).sort()
  }
  for (const [day, name] of names.entries()) {
    if (day === 2) await writeFile(stored, flipped(content))
    expect((await here(place, ['backup', 'create', '--to', join(backupFolder, name)])).code).toBe(day < 2 ? 0 : 3)
  }
  expect(await prune()).toEqual([names[1], names[3]])
  await writeFile(stored, content)
  expect((await here(place, ['backup', 'create', '--to', join(backupFolder, 'dms-20260105T000000Z.tar')])).code).toBe(0)
  expect(await prune()).toEqual(['dms-20260105T000000Z.tar'])
})
