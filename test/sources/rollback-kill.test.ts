/** Destructive syncs and rollbacks killed at any point: nothing half done, nothing lost, and another run completes them. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { startSynced } from '../support/data/synced-source.ts'
import { bareEnvironment, executable, run } from '../support/processes/run.ts'

const count = 800

async function start() {
  const synced = await startSynced()
  const paths = synced.names(count)
  await synced.fill(paths)
  expect(await synced.sync()).toMatchObject({ created: count })
  const env = {
    DATABASE_URL: synced.databaseUrl,
    DMS_DATA_DIR: synced.dataDir,
    DMS_SOURCES_LOCAL_ROOTS: synced.root,
    DMS_STORAGE_MIN_FREE: '0',
    DMS_OCR_ENABLED: 'false',
  }
  const sourceIsBusy = async () => (await synced.asAdmin.sources.get(synced.source.id)).status === 'syncing'
  /** Starts `dms`, and kills it at a random time after it holds the source. Returns false if it ended before. */
  const kill = async (args: readonly string[], delayMs: number): Promise<boolean> => {
    const child = spawn(process.execPath, [executable, ...args], { env: bareEnvironment(env), stdio: 'ignore' })
    const exit = once(child, 'exit')
    while (child.exitCode === null && !(await sourceIsBusy())) await sleep(5)
    await sleep(Math.random() * delayMs)
    child.kill('SIGKILL')
    const [, signal] = await exit
    while (await sourceIsBusy()) await sleep(5)
    return signal === 'SIGKILL'
  }
  return { ...synced, paths, env, kill }
}

test('a destructive sync that is killed while it compares bytes has applied nothing, and stops again when it is repeated', {
  timeout: 180_000,
}, async () => {
  const { fill, paths, state, kill, env } = await start()
  const before = await state()
  // A quarter of the files have other times and equal bytes: their versions may be recorded.
  await fill(paths.slice(0, 200))
  await fill(paths.slice(200), 'wrong')
  let kills = 0
  for (let turn = 0; turn < 4; turn++) if (await kill(['sources', 'sync', 'share'], 400)) kills++
  expect(kills).toBeGreaterThan(0)
  const last = await run(['sources', 'sync', 'share', '-o', 'json'], { env })
  expect(last.code).toBe(3)
  expect(last.stdout).toContain('SYNC_LOOKS_DESTRUCTIVE')
  const after = await state()
  expect(after.documents).toEqual(before.documents)
  expect(after.versions).toEqual(before.versions)
  const changed = new Set(paths.slice(200))
  const changedFiles = ({ files }: typeof after) => files.filter(({ path }) => changed.has(path))
  expect(changedFiles(after)).toEqual(changedFiles(before))
})

test('a rollback that is killed leaves every document in its old or its new state, and another run completes it', {
  timeout: 180_000,
}, async () => {
  const { fill, remove, paths, sync, documents, kill, env, app } = await start()
  const clean = await documents()
  const before = app.now().toISOString()
  await fill([...paths.slice(0, 400), ...paths.slice(400).map((path) => `${path}.locked`)], 'encrypted')
  await remove(paths.slice(400))
  expect(await sync({ accept_changes: true })).toMatchObject({ updated: 400, created: 400, removed: 400 })
  const encrypted = await documents()
  const rollBack = ['sources', 'rollback', 'share', '--before', before, '-y']
  let kills = 0
  for (let turn = 0; turn < 4; turn++) {
    if (await kill(rollBack, 150)) kills++
    for (const [path, { id, sha256 }] of await documents())
      expect([clean.get(path)?.sha256, encrypted.get(path)?.sha256], `${path} ${id}`).toContain(sha256)
  }
  expect(kills).toBeGreaterThan(0)
  const last = await run([...rollBack, '-o', 'json'], { env })
  expect(last.code).toBe(0)
  const now = await documents()
  const sums = (all: typeof now) => [...all].map(([path, { id, sha256 }]) => [path, id, sha256]).sort()
  expect(sums(now)).toEqual(sums(clean))
  const restored = await app.db.selectFrom('document_versions').select('document_id').where('origin', '=', 'restore').execute()
  expect(restored).toHaveLength(400)
})
