/** Crafted backups: nothing outside the store is read, written or removed, and nothing is restored. */
import { cp, link, mkdir, mkdtemp, readdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { filePath } from '../../../src/backup/manifest.ts'
import { tarEnd, tarHeader } from '../../../src/http/tar-writer.ts'
import { startApp, upload } from '../../support/app.ts'
import { archiveOf, consistent, type Entry, entriesOf, entryOf, hash, linkHeader } from '../../support/data/crafted-backup.ts'
import { connection, dms, emptyPlace, folder, here } from '../../support/places.ts'
import { storeFiles } from '../../support/servers/server.ts'

let backups: ReturnType<typeof createBackups> | undefined
afterAll(async () => {
  if (backups) await rm((await backups).to, { recursive: true })
})

/** Creates a valid backup in both formats, and a folder with a foreign file. */
async function createBackups() {
  const { databaseUrl, dataDir, asAda } = await startApp()
  const { id } = await upload(asAda, 'harbour.txt', 'Harbour fees for 2026')
  const to = await mkdtemp(join(tmpdir(), 'dms-crafted-'))
  const place = { databaseUrl, dataDir }
  await here(place, ['backup', 'create', '--to', join(to, 'x.tar')])
  await here(place, ['backup', 'create', '--format', 'dir', '--to', join(to, 'mirror')])
  await writeFile(join(to, 'thesis.txt'), 'mine')
  return { to, id }
}

/** Copies what createBackups() made once. */
async function goodBackup() {
  backups ??= createBackups()
  const [{ to: from, id }, to] = [await backups, await folder()]
  await cp(from, to, { recursive: true, preserveTimestamps: true })
  const archive = join(to, 'x.tar')
  return { to, archive, mirror: join(to, 'mirror'), id, entries: await entriesOf(archive) }
}

/** Restores a backup with and without --skip-damaged, then checks the folders around the target. */
async function refuses(path: string, reason: RegExp, flags: string[] = []) {
  const place = await emptyPlace()
  const around = async () => (await readdir(dirname(place.dataDir))).filter((name) => /evil|passwd|thesis/.test(name))
  const before = await around()
  for (const more of [[], ['--skip-damaged']]) {
    const { code, stderr } = await here(place, ['restore', path, '-q', ...flags, ...more])
    expect([code, stderr], more.join()).toEqual([1, expect.stringMatching(reason)])
    expect(stderr).toContain('nothing was restored')
  }
  expect((await storeFiles(place.dataDir)).named).toEqual([])
  expect((await (await connection(place)).query(`select from pg_tables where schemaname = 'public'`)).rows).toEqual([])
  expect(await around()).toEqual(before)
}

describe('archives', () => {
  test.each([
    '../../../../tmp/evil',
    '/tmp/evil',
    'files/../../../evil',
    'files/aa/bb/../../../../evil',
    'data/x/tables/../../../evil.000001',
    `files/aa/bb/${'c'.repeat(64)}`,
  ])('an entry named %s is no entry of a backup: it is left out, whole', async (path) => {
    const { archive, entries } = await goodBackup()
    const [head, ...rest] = entries as [Entry, ...Entry[]]
    await writeFile(archive, archiveOf(consistent([head, { path, bytes: Buffer.from('evil') }, ...rest])))
    const place = await emptyPlace()
    const refused = await here(place, ['restore', archive, '-q'])
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('is unknown')])
    expect((await storeFiles(place.dataDir)).named).toEqual([])
    expect((await here(place, ['restore', archive, '-q', '--skip-damaged'])).code).toBe(3)
    expect((await storeFiles(place.dataDir)).named).toHaveLength(1)
    expect((await readdir(place.dataDir)).filter((name) => name.includes('evil'))).toEqual([])
  })

  test.each(['1', '2'] as const)('a link (type %s) instead of a stored file is not followed: the file is missing', async (type) => {
    const { archive, entries, to } = await goodBackup()
    const whole = archiveOf(entries)
    const { path, bytes } = entryOf(entries, /^files/)
    const at = whole.indexOf(path)
    const link = linkHeader(path, join(to, 'thesis.txt'), type)
    await writeFile(archive, Buffer.concat([whole.subarray(0, at), link, whole.subarray(at + 512 + Math.ceil(bytes.length / 512) * 512)]))
    const place = await emptyPlace()
    expect((await here(place, ['restore', archive, '-q'])).code).toBe(1)
    expect((await here(place, ['restore', archive, '-q', '--skip-damaged'])).code).toBe(3)
    expect((await storeFiles(place.dataDir)).named).toEqual([])
    expect(await readFile(join(to, 'thesis.txt'), 'utf8')).toBe('mine')
  })

  test.each(['head.json', 'SHA256SUMS', 'users.000001', 'manifest.json'])('%s twice', async (name) => {
    const { archive, entries } = await goodBackup()
    const twice = entryOf(entries, new RegExp(`${name}$`))
    await writeFile(archive, archiveOf(entries.flatMap((entry) => (entry === twice ? [entry, entry] : [entry]))))
    await refuses(archive, /twice|after its end/)
  })

  test('an oversized head or manifest, and a checksum list without line breaks', async () => {
    const { archive, entries } = await goodBackup()
    const large = (pattern: RegExp, bytes: Buffer) => entries.map((entry) => (pattern.test(entry.path) ? { ...entry, bytes } : entry))
    await writeFile(archive, archiveOf(large(/head\.json$/, Buffer.alloc(5 << 20, ' '))))
    await refuses(archive, /head\.json has more than \d+ bytes/)
    await writeFile(archive, archiveOf(large(/^manifest/, Buffer.alloc(65 << 20, ' '))))
    await refuses(archive, /manifest\.json has more than \d+ bytes/)
    await writeFile(archive, archiveOf(large(/SHA256SUMS$/, Buffer.alloc(5 << 20, 'a'))))
    await refuses(archive, /short lines/)
  })

  test('a tar header with an invalid size', async () => {
    const { archive } = await goodBackup()
    for (const size of ['-0000000001\0', 'zzzzzzzzzzz\0']) {
      const header = tarHeader('data/x/head.json', 0, 0)
      header.write(size, 124)
      header.write('        ', 148)
      header.write(
        `${header
          .reduce((total, byte) => total + byte, 0)
          .toString(8)
          .padStart(6, '0')}\0 `,
        148,
        'latin1',
      )
      await writeFile(archive, Buffer.concat([header, tarEnd]))
      await refuses(archive, /not an archive/)
    }
  })
})

describe('tables', () => {
  const withTable = (entries: Entry[], table: string, columns: string[], text: string) => {
    const head = JSON.parse(entryOf(entries, /head\.json$/).bytes.toString()) as { id: string; tables: object[] }
    const { rows } = JSON.parse(entryOf(entries, /^manifest/).bytes.toString()) as { rows: Record<string, number> }
    const others = entries.filter(({ path }) => !path.includes(`/tables/${table}.`))
    const at = others.findIndex(({ path }) => path.startsWith('files/'))
    const tables = [...head.tables.filter((each) => (each as { name: string }).name !== table), { name: table, columns }]
    const added = [
      ...others.slice(0, at),
      { path: `data/${head.id}/tables/${table}.000001`, bytes: Buffer.from(text) },
      ...others.slice(at),
    ]
    return consistent(added, { tables, rows: { ...rows, [table]: 1 } })
  }

  test('rows with a path instead of a SHA-256: the file is neither downloaded nor deleted', async () => {
    const { to, archive, entries, id } = await goodBackup()
    const [outside, secret] = [join(to, 'secret.txt'), 'A secret of this host']
    await writeFile(outside, secret)
    const sha256 = hash(entryOf(entries, /^files/).bytes)
    const path = `${'../'.repeat(20)}${outside.slice(1)}`
    const crafted = entries.map((entry) =>
      /\/tables\//.test(entry.path) ? { ...entry, bytes: Buffer.from(entry.bytes.toString().replaceAll(sha256, path)) } : entry,
    )
    await writeFile(archive, archiveOf(consistent(crafted)))
    const place = await emptyPlace()
    const { code, stderr } = await here(place, ['restore', archive, '-q'])
    const { stdout } = await dms(place, ['documents', 'download', id, '--to', '-'])
    await here(place, ['documents', 'delete', id, '--permanent', '--yes'])
    await dms(place, ['worker', '--once', '--queues', 'maintenance'])
    expect({ stdout, kept: await readFile(outside, 'utf8').catch(() => 'removed') }).toEqual({ stdout: '', kept: secret })
    expect([code, stderr]).toEqual([1, expect.stringMatching(/stored_files.*\n?.*nothing was restored/)])
  })

  test.each(['../../../etc/passwd', '/etc/passwd', `${'a'.repeat(64)}/../../x`, 'A'.repeat(64)])(
    'a stored file whose SHA-256 is %s',
    async (sha256) => {
      const { archive, entries } = await goodBackup()
      const crafted = withTable(entries, 'stored_files', ['sha256', 'size', 'address'], `${sha256}\t1\t${sha256}\n`)
      await writeFile(archive, archiveOf(crafted.filter(({ path }) => !/tables\/(documents|source_files)\./.test(path))))
      const place = await emptyPlace()
      expect((await here(place, ['restore', archive, '-q'])).code).toBe(1)
      await writeFile(archive, archiveOf(consistent(crafted)))
      await refuses(archive, /stored_files|violates|not a SHA-256/)
    },
  )

  test.each(['../../../etc/passwd', 'SUM/../../x', 'SUM.abcdefgh/../../x', 'SUM.short', `${'b'.repeat(64)}.abcdefgh`])(
    'a stored file whose address is %s',
    async (address) => {
      const { archive, entries } = await goodBackup()
      const crafted = entries.map(({ path, bytes }) => {
        if (!/tables\/stored_files\./.test(path)) return { path, bytes }
        const text = bytes.toString().replace(/([0-9a-f]{64})\.[0-9a-f]{16}/g, (_, sum: string) => address.replace('SUM', sum))
        return { path, bytes: Buffer.from(text) }
      })
      await writeFile(archive, archiveOf(consistent(crafted)))
      await refuses(archive, /stored_files_address_form/)
    },
  )

  test('a job that would delete a file by path', async () => {
    const { archive, entries } = await goodBackup()
    const row = 'purge\tmaintenance\t{"sha256": "../../../../tmp/thesis.txt"}\n'
    await writeFile(archive, archiveOf(withTable(entries, 'jobs', ['kind', 'queue', 'payload'], row)))
    await refuses(archive, /the table jobs has .* not a SHA-256/)
  })

  test('system tables, migration tables and unknown tables are skipped', async () => {
    const { archive, entries } = await goodBackup()
    for (const [name, columns, row] of [
      ['pg_authid', ['rolname'], 'evil\n'],
      ['migrations', ['name'], '9999_evil\n'],
      ['of_nobody', ['a'], 'b\n'],
    ] as const) {
      await writeFile(archive, archiveOf(withTable(entries, name, [...columns], row)))
      const place = await emptyPlace()
      const { code, stderr } = await here(place, ['restore', archive, '-q'])
      expect([code, stderr]).toEqual([0, expect.stringContaining(`skipped table ${name}, which does not belong to dms`)])
      expect((await (await connection(place)).query(`select from migrations where name = '9999_evil'`)).rows).toEqual([])
    }
  })

  test('invalid names of tables and columns', async () => {
    const { archive, entries } = await goodBackup()
    const tables = [{ name: 'users" cascade; drop table users; --', columns: ['a'] }]
    await writeFile(archive, archiveOf(consistent(entries, { tables })))
    await refuses(archive, /tables\.0\.name/)
    await writeFile(archive, archiveOf(withTable(entries, 'labels', ['name', 'evil'], 'a\tb\n')))
    await refuses(archive, /column evil/)
  })
})

describe('folders', () => {
  test.each(['files', 'the folder of a file', 'the file'])('%s that is a symbolic link is not followed', async (which) => {
    const { mirror, to, entries } = await goodBackup()
    const path = join(mirror, filePath(hash(entryOf(entries, /^files/).bytes)))
    const moved = which === 'the file' ? path : which === 'files' ? join(mirror, 'files') : dirname(path)
    await rename(moved, join(to, 'moved'))
    await symlink(join(to, 'moved'), moved)
    const place = await emptyPlace()
    expect((await here(place, ['restore', mirror, '-q'])).code).toBe(1)
    expect((await here(place, ['restore', mirror, '-q', '--skip-damaged'])).code).toBe(3)
    expect((await storeFiles(place.dataDir)).named).toEqual([])
  })

  test('a checksum list or manifest with paths outside the folder reads nothing there', async () => {
    const { mirror, to } = await goodBackup()
    const manifest = JSON.parse(await readFile(join(mirror, 'manifest.json'), 'utf8')) as { sums: { path: string } }
    const list = join(mirror, manifest.sums.path)
    const lines = await readFile(list, 'utf8')
    await writeFile(list, `${lines}${hash(Buffer.from('mine'))}  ../thesis.txt\n${hash(Buffer.from('mine'))}  ${join(to, 'thesis.txt')}\n`)
    const place = await emptyPlace()
    expect((await here(place, ['restore', mirror, '-q'])).code).toBe(1)
    await writeFile(list, lines)
    await writeFile(join(mirror, 'manifest.json'), JSON.stringify({ ...manifest, sums: { ...manifest.sums, path: '../thesis.txt' } }))
    await refuses(mirror, /manifest\.json: sums\.path/)
    await rm(join(mirror, 'manifest.json'))
    await symlink(join(to, 'thesis.txt'), join(mirror, 'manifest.json'))
    await refuses(mirror, /has no manifest\.json/)
  })

  test('a named pipe does not block the restore; a hard link is restored as a file', async () => {
    const { mirror, to, entries } = await goodBackup()
    const path = join(mirror, filePath(hash(entryOf(entries, /^files/).bytes)))
    await link(path, join(to, 'link'))
    expect((await here(await emptyPlace(), ['restore', mirror, '-q'])).code).toBe(0)
    await rm(path)
    const { spawnSync } = await import('node:child_process')
    expect(spawnSync('mkfifo', [path]).status).toBe(0)
    await mkdir(join(to, 'unused'))
    expect((await here(await emptyPlace(), ['restore', mirror, '-q'])).code).toBe(1)
  })
})
