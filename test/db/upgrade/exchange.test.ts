/** The exchange of clusters: every state that a killed process can leave. */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { hasCluster } from '../../../src/db/embedded/cluster.ts'
import { completeExchange, exchange, isExchanging, listKept, removeKept, removeUnfinished } from '../../../src/db/embedded/exchange.ts'
import { requireSpace } from '../../../src/db/embedded/upgrade/plan.ts'
import { explainFailure } from '../../../src/db/embedded/upgrade/upgrade.ts'
import { AppError } from '../../../src/errors.ts'

/** Creates a data folder with an old cluster, and a new one beside it. */
function createDataDir(): string {
  const dataDir = mkdtempSync(join(tmpdir(), 'dms-exchange-'))
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }))
  for (const [folder, version] of [
    ['postgres', '17'],
    ['postgres-upgrade/new/postgres', '18'],
  ] as const) {
    mkdirSync(join(dataDir, folder), { recursive: true })
    writeFileSync(join(dataDir, folder, 'PG_VERSION'), `${version}\n`)
  }
  return dataDir
}

const versionIn = (dataDir: string, name = 'postgres'): string => readFileSync(join(dataDir, name, 'PG_VERSION'), 'utf8').trim()

test('the exchange puts the new cluster in place and keeps the old one', async () => {
  const dataDir = createDataDir()
  await exchange(dataDir, 17)
  expect(versionIn(dataDir)).toBe('18')
  expect(versionIn(dataDir, 'postgres-17')).toBe('17')
  expect(readdirSync(dataDir).sort()).toEqual(['postgres', 'postgres-17'])
  expect(await listKept(dataDir)).toEqual([17])
  await removeKept(dataDir, 17)
  expect(readdirSync(dataDir)).toEqual(['postgres'])
})

test('before the marker and before the first rename, the old cluster stays', async () => {
  const dataDir = createDataDir()
  await completeExchange(dataDir)
  expect(versionIn(dataDir)).toBe('17')
  writeFileSync(join(dataDir, 'postgres-upgrade/complete'), '17\n')
  expect(await isExchanging(dataDir)).toBe(false)
  await completeExchange(dataDir)
  expect(versionIn(dataDir)).toBe('17')
})

test('between the renames, whoever opens the folder next completes the exchange, also two at once', async () => {
  const dataDir = createDataDir()
  writeFileSync(join(dataDir, 'postgres-upgrade/complete'), '17\n')
  renameSync(join(dataDir, 'postgres'), join(dataDir, 'postgres-17'))
  expect(await hasCluster(dataDir)).toBe(true)
  await Promise.all([completeExchange(dataDir), completeExchange(dataDir)])
  expect(versionIn(dataDir)).toBe('18')
  expect(versionIn(dataDir, 'postgres-17')).toBe('17')
  expect(existsSync(join(dataDir, 'postgres-upgrade'))).toBe(false)
})

test('if the second rename fails, the new cluster stays, and the next command completes the exchange', async () => {
  const dataDir = createDataDir()
  writeFileSync(join(dataDir, 'postgres-upgrade/complete'), '17\n')
  renameSync(join(dataDir, 'postgres'), join(dataDir, 'postgres-17'))
  await removeUnfinished(dataDir)
  await completeExchange(dataDir)
  expect(versionIn(dataDir)).toBe('18')
  mkdirSync(join(dataDir, 'postgres-upgrade/new'), { recursive: true })
  await removeUnfinished(dataDir)
  expect(readdirSync(dataDir).sort()).toEqual(['postgres', 'postgres-17'])
})

test('a missing cluster is not replaced by an unfinished copy', async () => {
  const dataDir = createDataDir()
  renameSync(join(dataDir, 'postgres'), join(dataDir, 'postgres-17'))
  expect(await hasCluster(dataDir)).toBe(false)
  await completeExchange(dataDir)
  expect(existsSync(join(dataDir, 'postgres'))).toBe(false)
})

test('a disk that is too full is refused with both numbers', () => {
  expect(() => requireSpace('/srv/dms', { neededBytes: 3e9, freeBytes: 2e9 })).toThrow(
    'the upgrade needs 3.0 GB, and the disk of /srv/dms has 2.0 GB free',
  )
  expect(() => requireSpace('/srv/dms', { neededBytes: 3e9, freeBytes: 3e9 })).not.toThrow()
})

test('a disk that fills up during the upgrade ends with CONFLICT and a fix; other errors stay', async () => {
  for (const code of ['ENOSPC', '53100'])
    expect(await explainFailure(Object.assign(new Error('cannot write'), { code }), tmpdir())).toMatchObject({
      code: 'CONFLICT',
      message: `the disk of ${tmpdir()} is full; the old database is unchanged`,
      fix: expect.arrayContaining([expect.stringContaining('free space')]),
    })
  for (const error of [new AppError('CONFLICT', {}, 'the rows differ'), Object.assign(new Error('broken'), { code: 'XX000' })])
    expect(await explainFailure(error, tmpdir())).toBe(error)
})
