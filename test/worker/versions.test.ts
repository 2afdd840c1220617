/** Workers and servers of another version than the schema of their database. */
import { once } from 'node:events'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { startApp, upload } from '../support/app.ts'
import { startProcess, startServe } from '../support/processes/service.ts'

const later = '9999_of_a_later_version'

test('78: a running worker stops when a later version migrates the database, and claims no job of it', async () => {
  const dms = await startApp()
  const { app } = dms
  const worker = startProcess(dms, ['worker'], { DMS_LOG_LEVEL: 'info' })
  const server = await startServe(dms, { DMS_WORKER_EMBEDDED: 'true' })
  const workers = async () => (await app.db.selectFrom('workers').select('name').execute()).length
  await expect.poll(workers, { timeout: 30_000 }).toBe(2)

  const ended = once(worker.child, 'exit')
  await sql`insert into migrations (name) values (${later})`.execute(app.db)
  expect(await ended).toEqual([78, null])
  expect(worker.said.at(-1)).toContain(`the database schema is newer than this dms: it does not know ${later}`)
  await expect.poll(workers, { timeout: 30_000 }).toBe(0)
  const { id } = await upload(dms.asAda, 'a.txt', 'text')

  // The worker of the server refuses too, and is not started again and again.
  const restart = () => server.said.find((line) => line.includes('the worker process ended'))
  await expect.poll(restart, { timeout: 30_000 }).toMatch(/"code":78.*"restart_ms":60000/)
  expect(await fetch(new URL('/readyz', server.url)).then((answer) => answer.json())).toMatchObject({ checks: { schema: 'fail' } })
  expect(await dms.asAda.documents.get(id)).toMatchObject({ status: 'pending' })

  // The version that knows the schema does the work.
  await sql`delete from migrations where name = ${later}`.execute(app.db)
  expect(await once(startProcess(dms, ['worker', '--once']).child, 'exit')).toEqual([0, null])
  expect(await dms.asAda.documents.get(id)).toMatchObject({ status: 'completed' })
})

test('8: server and worker of a later version name the command that migrates the database', async () => {
  const dms = await startApp()
  await sql`delete from migrations where name in (select name from migrations order by name desc limit 3)`.execute(dms.app.db)
  const refused = [startProcess(dms, ['serve', '--port', '0']), startProcess(dms, ['worker'])]
  const ends = await Promise.all(refused.map(({ child }) => once(child, 'exit')))
  expect(ends).toEqual([
    [8, null],
    [8, null],
  ])
  for (const { said } of refused) expect(said.join('\n')).toMatch(/migrations are pending: \w+ to \w+ \(3\)\n[\s\S]*dms migrate/)
})
