import { expect, test } from 'vitest'
import { moveToTrash } from '../../../src/documents/trash/trash.ts'
import { startApp, upload } from '../../support/app.ts'
import { replace } from '../../support/data/versions.ts'
import { here } from '../../support/places.ts'

test('doctor warns where old versions take more than half of the store and nothing limits them', async () => {
  const { app, databaseUrl, dataDir, asAda, runJobs } = await startApp()
  const place = { databaseUrl, dataDir }
  const { id } = await upload(asAda, 'a.txt', 'apples')
  const ofVersions = async (env: Record<string, string> = {}) =>
    JSON.parse((await here(place, ['doctor', '--only', 'versions', '--json'], { env })).stdout).checks[0]
  await replace(asAda, id, 'a.txt', 'pears')
  await runJobs()
  const text = '1 old versions take 6 bytes, 0 documents in the trash 0 bytes, of 11 bytes'
  const fix = 'set documents.keep_versions or documents.version_days'
  expect(await ofVersions()).toMatchObject({ status: 'warn', message: `${text}; no old version is ever removed`, fix })
  expect(await ofVersions({ DMS_DOCUMENTS_KEEP_VERSIONS: '5' })).toMatchObject({ status: 'ok', message: text })
  const big = await upload(asAda, 'b.txt', 'bananas and cherries')
  expect((await ofVersions()).status).toBe('ok')
  await app.db.transaction().execute((trx) => moveToTrash(app, trx, null, [big.id]))
  expect((await ofVersions()).message).toContain('1 documents in the trash 20 bytes, of 31 bytes')
})
