import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { startApp, upload } from '../../support/app.ts'
import { here } from '../../support/places.ts'

test('doctor names the mode and counts what is kept; warns in WORM mode where the application owns the tables, fails without a trigger', async () => {
  const { app, databaseUrl, dataDir, asAda } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'a')
  await asAda.documents.update(id, { retain_until: '2090-01-01' })
  const diagnose = async ({ worm }: { worm: boolean }) => {
    const { stdout } = await here({ databaseUrl, dataDir }, ['doctor', '--only', 'retention', '--json'], {
      env: { DMS_DOCUMENTS_WORM: String(worm) },
    })
    return (JSON.parse(stdout) as { checks: { status: string; message: string; fix?: string }[] }).checks[0]
  }
  expect(await diagnose({ worm: false })).toMatchObject({ status: 'ok', message: 'WORM is off; documents under retention or hold: 1' })
  expect(await diagnose({ worm: true })).toMatchObject({
    status: 'warn',
    message: expect.stringContaining('WORM is on'),
    fix: expect.stringContaining('database.migration_url'),
  })
  await sql`alter table document_versions disable trigger dms_retain`.execute(app.db)
  expect(await diagnose({ worm: false })).toMatchObject({ status: 'fail', message: expect.stringContaining('10 of 11 triggers') })
})
