/** A failed restore leaves a folder that no server treats as a new archive; a dry run leaves none. */
import { chmod, readdir, readFile, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openStoreClaim } from '../../../src/backup/restore/store-claim.ts'
import { folderMarkers } from '../../../src/files/folder-markers.ts'
import { endRestore, readClaim, readStoreId } from '../../../src/files/restore-marker.ts'
import { someDocuments } from '../../support/backups.ts'
import { begin, emptyPlace, folder, here, opened, type Place } from '../../support/places.ts'

/** Creates a backup, and a truncated copy of it. */
async function backups() {
  const { place } = await someDocuments()
  const to = await folder()
  const [archive, damaged] = [join(to, 'good.tar'), join(to, 'bad.tar')]
  expect((await here(place, ['backup', 'create', '--to', archive, '-q'])).code).toBe(0)
  await writeFile(damaged, await readFile(archive))
  await truncate(damaged, 30_000)
  return { archive, damaged, place }
}

const opening = [
  ['serve', '--port', '0', '--no-worker'],
  ['serve', '--check', '--port', '0'],
  ['worker', '--once', '--migrate'],
  ['documents', 'list'],
  ['documents', 'list', '--init'],
  ['backup', 'create', '--to', '-'],
  ['migrate'],
]

async function refusesAll(place: Place): Promise<void> {
  for (const words of opening)
    expect([words, await here(place, words)]).toMatchObject([
      words,
      {
        code: 78,
        stdout: '',
        stderr: expect.stringMatching(/^error: a restore into .* has not finished: run dms restore again, or remove /),
      },
    ])
}

test('external database: 78 after a failed restore, also with an applied schema; the next restore is complete', async () => {
  const { archive, damaged } = await backups()
  const place = await emptyPlace()
  expect((await here(place, ['migrate', '-q'])).code).toBe(0)
  for (let time = 0; time < 2; time++) {
    expect((await here(place, ['restore', damaged])).code).toBe(1)
    await refusesAll(place)
  }
  expect(await here(place, ['restore', '-n', archive, '-q'])).toMatchObject({ code: 0 })
  await refusesAll(place)
  expect((await here(place, ['restore', archive, '-q'])).code).toBe(0)
  expect((await here(place, ['documents', 'list', '-o', 'id'])).stdout.trim().split('\n')).toHaveLength(3)
  expect((await readdir(join(place.dataDir, 'files'))).includes('.dms-restore')).toBe(false)
})

test('embedded database: restore -n creates nothing, and a failed restore elsewhere blocks the data folder', async () => {
  const { archive, damaged } = await backups()
  const top = await folder()
  // The account of the embedded database passes it.
  await chmod(top, 0o711)
  const place = { databaseUrl: '', dataDir: join(top, 'data') }
  expect(await here(place, ['restore', '-n', archive])).toMatchObject({ code: 0, stdout: expect.stringContaining('documents\t3') })
  expect((await here(place, ['restore', archive, '--confirm', 'other'])).code).toBe(2)
  expect(await readdir(top)).toEqual([])
  expect((await here(place, ['restore', damaged, '--files-to', join(top, 'files')])).code).toBe(1)
  await refusesAll(place)
  expect((await here(place, ['restore', archive, '-q'])).code).toBe(0)
  expect((await here(place, ['documents', 'list', '-o', 'id'])).stdout.trim().split('\n')).toHaveLength(3)
  expect((await readdir(place.dataDir)).includes('.dms-restore')).toBe(false)
})

test('restore -n shows the contents of a backup before 7 for a place that has users', async () => {
  const { archive, place } = await backups()
  expect(await here(place, ['restore', '-n', archive])).toMatchObject({
    code: 7,
    stdout: expect.stringContaining('documents\t3\n'),
    stderr: expect.stringMatching(/^error: the database holds users; /),
  })
  const { stdout } = await here(place, ['restore', '-n', archive, '--json'])
  expect(JSON.parse(stdout)).toMatchObject({ dry_run: true, documents: 3, exit_code: 7 })
})

test('restore -n: 1 for a truncated archive', async () => {
  const { damaged } = await backups()
  expect(await here(await emptyPlace(), ['restore', '-n', damaged])).toMatchObject({
    code: 1,
    stdout: '',
    stderr: `error: ${damaged} does not end with its manifest: it was not finished, or was truncated\n`,
  })
})

test('7 for users that a running server adds while the restore waits for its archive; they stay', async () => {
  const { archive } = await backups()
  const place = await emptyPlace()
  expect((await here(place, ['migrate'])).code).toBe(0)
  const { asOperator } = await opened(place)
  const restore = begin(place, ['restore', '-'])
  await expect.poll(() => readdir(join(place.dataDir, 'files')), { timeout: 60_000 }).toContain('.dms-restore')
  await asOperator.users.create({ username: 'cleo', email: 'cleo@example.org', password: 'correct horse battery', role: 'user' })
  restore.stdin.end(await readFile(archive))
  expect(await restore.ended).toBe(7)
  expect((await Array.fromAsync(asOperator.users.list())).map(({ username }) => username)).toEqual(['cleo'])
})

test('75 for a restore from another database into the same folder while one runs, which completes; 0 after one was killed', async () => {
  const { archive } = await backups()
  const [first, second] = [await emptyPlace(), await emptyPlace()]
  const start = async (files: string) => {
    const child = begin(first, ['restore', '-', '--files-to', files, '-q'])
    const claim = () => readFile(join(files, '.dms-restore'), 'utf8').catch(() => '')
    await expect.poll(claim, { timeout: 20_000 }).toContain('heartbeat')
    return child
  }
  const restoreSecond = (files: string) => here(second, ['restore', archive, '--files-to', files, '-q'])
  const abandoned = join(await folder(), 'files')
  const killed = await start(abandoned)
  killed.kill('SIGKILL')
  await killed.ended
  const shared = join(await folder(), 'files')
  const running = await start(shared)
  expect(await restoreSecond(shared)).toMatchObject({ code: 75, stderr: expect.stringContaining(`from another database into ${shared}`) })
  running.stdin.end(await readFile(archive))
  expect(await running.ended).toBe(0)
  expect(await here(first, ['check', '--sample', '100%', '-q'], { env: { DMS_STORAGE_PATH: shared } })).toMatchObject({ code: 0 })
  expect(await restoreSecond(abandoned)).toMatchObject({ code: 0 })
}, 120_000)

test('75 for all but one of several restores from other databases that claim a folder at once; later ones find its files', async () => {
  const markers = folderMarkers(join(await folder(), 'files'))
  const ids = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']
  const claim = (storeId: string, assertEmpty: () => Promise<void>) =>
    openStoreClaim(markers, { storeId, database: `database ${storeId}`, interrupted: null, assertEmpty })
  const claims = await Promise.allSettled(ids.map((id) => claim(id, async () => {})))
  const won = claims.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
  expect(await Promise.all(won.map((each) => each.end()))).toEqual([true])
  expect(claims.flatMap((each) => (each.status === 'rejected' ? [(each.reason as Error).message] : []))).toEqual(
    Array(7).fill(expect.stringContaining(`from another database into ${markers.location}`)),
  )
  await endRestore(markers)
  await expect(claim('late', () => Promise.reject(new Error('it holds files')))).rejects.toThrow('it holds files')
  expect([ids.includes(await readStoreId(markers)), await readClaim(markers)]).toEqual([true, null])
})

test('one of several restores from other databases into one folder at once is complete, and the others leave nothing', async () => {
  const { archive } = await backups()
  const places = await Promise.all([1, 2, 3].map(emptyPlace))
  const files = join(await folder(), 'files')
  const endings = await Promise.all(places.map((place) => here(place, ['restore', archive, '--files-to', files, '-q'])))
  const codes = endings.map(({ code }) => code)
  expect(codes.filter((code) => code === 0)).toHaveLength(1)
  expect(endings.filter(({ code }) => ![0, 7, 75].includes(Number(code)))).toEqual([])
  const stored = (await readdir(files, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile())
  expect(stored.map(({ name }) => name).sort()).toEqual([
    '.dms-database',
    '.dms-store',
    expect.stringMatching(/\./),
    expect.stringMatching(/\./),
  ])
  const winner = places[codes.indexOf(0)] as Place
  expect(await here(winner, ['check', '--sample', '100%', '-q'], { env: { DMS_STORAGE_PATH: files } })).toMatchObject({ code: 0 })
})
