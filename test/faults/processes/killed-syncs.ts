/** F08: a sync is killed at random points and continues. */
import { mkdir, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { killSync } from '../../support/processes/kill-sync.ts'
import { type Fault, type FaultContext, type FaultResult, openFaultRun } from '../fault.ts'

export const killedSyncs: Fault = { id: 'F08', name: 'kill -9 during a sync', isLong: true, run }

async function run({ installation, isShort }: FaultContext): Promise<FaultResult> {
  const folder = join(installation.folder, 'share')
  await mkdir(folder)
  const root = await realpath(folder)
  const env = { DMS_SOURCES_LOCAL_ROOTS: root, DMS_OCR_ENABLED: 'false' }
  const server = await installation.start({ env })
  const faultRun = await openFaultRun(installation)
  const { caller, problems } = faultRun
  const name = 'share'
  const made = await caller.call('POST', '/api/sources', caller.json({ name, type: 'local_folder', url: root, sync_interval: 0 }))
  const { id } = JSON.parse(made.body.toString()) as { id: string }
  const points = isShort ? 3 : 20
  const shell = { ...env, DMS_DATA_DIR: installation.dataDir, DMS_STORAGE_MIN_FREE: '0' }
  problems.push(...(await killSync({ env: shell, query: installation.query, source: { id, name }, root, points })))
  const result = await faultRun.finish(`${points} kills of a sync`, { timeoutMs: 180_000 })
  await server.kill()
  return result
}
