import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { lockTable, someDocuments } from '../../support/backups.ts'
import { begin, connection, dms, emptyPlace, here } from '../../support/places.ts'
import { storeFiles } from '../../support/servers/server.ts'

describe('kill -9', () => {
  test('a killed backup leaves no archive, and the next one is complete', async () => {
    const { place, dataDir } = await someDocuments()
    const backupFolder = join(dataDir, 'backups')
    const mirror = join(dataDir, 'mirror')
    await here(place, ['backup', 'create', '--format', 'dir', '--to', mirror])
    const release = await lockTable(place, 'comments')
    const archive = begin(place, ['backup', 'create'])
    await expect.poll(() => readdir(backupFolder).catch(() => []), { timeout: 20_000 }).toEqual([expect.stringMatching(/\.tar\.partial$/)])
    archive.kill('SIGKILL')
    await archive.ended
    const folders = await readdir(join(mirror, 'data'))
    const second = begin(place, ['backup', 'create', '--format', 'dir', '--to', mirror, '--lock-timeout', '2m'])
    await expect.poll(() => readdir(join(mirror, 'data')), { timeout: 20_000 }).toHaveLength(folders.length + 1)
    second.kill('SIGKILL')
    await second.ended
    await release()
    expect((await here(place, ['backup', 'verify', mirror])).code).toBe(0)
    const listed = await here(place, ['backup', 'list', '--json'])
    expect((JSON.parse(listed.stdout) as { complete: boolean }[]).filter(({ complete }) => complete)).toEqual([])
    expect((await here(place, ['backup', 'create', '--format', 'dir', '--to', mirror, '--lock-timeout', '2m'])).code).toBe(0)
    expect(await readdir(join(mirror, 'data'))).toHaveLength(1)
    expect((await here(place, ['backup', 'verify', mirror])).code).toBe(0)
  })

  test('a killed restore leaves an empty database and a store that no server accepts; a second restore works', async () => {
    const { place, dataDir, app } = await someDocuments()
    const archive = join(dataDir, 'x.tar')
    await here(place, ['backup', 'create', '--to', archive])
    const bytes = await readFile(archive)
    const other = await emptyPlace()
    const child = begin(other, ['restore', '-'])
    // All but the end: the restore waits for the rest with tables and files restored.
    child.stdin.write(bytes.subarray(0, bytes.indexOf('SHA256SUMS\0') - 60))
    await expect.poll(async () => (await storeFiles(other.dataDir)).named.length, { timeout: 20_000 }).toBe(2)
    child.kill('SIGKILL')
    await child.ended
    const client = await connection(other)
    await expect.poll(async () => (await client.query(`select from pg_tables where schemaname = 'public'`)).rows.length).toBe(0)
    const served = await dms(other, ['serve', '--migrate', '--check'])
    expect([served.code, served.stderr]).toEqual([78, expect.stringContaining('has not finished')])
    await client.query('drop owned by current_user')
    expect(await here(other, ['restore', archive, '-q'])).toMatchObject({ code: 0, stderr: '' })
    expect((await here(other, ['check', '--sample', '100%'])).code).toBe(0)
    expect((await storeFiles(other.dataDir)).named).toEqual((await storeFiles(app.config.data_dir)).named)
  })
})
