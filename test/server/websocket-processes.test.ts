/** /ws with real processes: two `dms serve` and a `dms worker` on one database, stopped and killed. */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { startApp, upload } from '../support/app.ts'
import { openWebSocket } from '../support/processes/live.ts'
import { startProcess, startServe } from '../support/processes/service.ts'
import { tokenFor } from '../support/servers/server.ts'

test('events of a worker process arrive; a stopped server sends 1001 and is removed; a killed one frees its connections', async () => {
  const dms = await startApp()
  const servers = await Promise.all([startServe(dms), startServe(dms)])
  const token = await tokenFor(dms.app, dms.ada)
  // Each signs in at once: a socket without a session is closed after ten seconds.
  const subscribe = async (server: number) => {
    const socket = await openWebSocket(`${servers[server]?.url}/ws`)
    expect((await socket.join(token, ['ocr_progress'])).type).toBe('subscribed')
    return socket
  }
  const sockets = await Promise.all([0, 1, 0, 1, 0].map(subscribe))
  const places = () => dms.app.db.selectFrom('live_places').select('id').execute()
  expect(await places()).toHaveLength(5)

  const { id } = await upload(dms.asAda, 'a.txt', 'words', { ocr_enabled: false })
  expect(await once(startProcess(dms, ['worker', '--once']).child, 'exit')).toEqual([0, null])
  for (const socket of sockets) {
    expect(await socket.next('ocr_progress')).toMatchObject({ document_id: id, progress: 0, status: 'processing' })
    expect(await socket.next(({ progress }) => progress === 100)).toMatchObject({ document_id: id, status: 'completed' })
  }

  const [stopped, killed] = servers
  const asked = performance.now()
  stopped?.child.kill('SIGTERM')
  for (const number of [0, 2, 4]) expect((await sockets[number]?.closed)?.code).toBe(1001)
  expect(await once(stopped?.child as ChildProcess, 'exit')).toEqual([0, null])
  // Less than the 30 s after which it would give up.
  expect(performance.now() - asked).toBeLessThan(20_000)
  expect(await places()).toHaveLength(2)

  const { server_id } = await dms.app.db.selectFrom('live_places').select('server_id').distinct().executeTakeFirstOrThrow()
  const setSilence = (seconds: number) =>
    sql`update servers set seen_at = now() - ${seconds} * interval '1 second' where id = ${server_id}`.execute(dms.app.db)
  killed?.child.kill('SIGKILL')
  await once(killed?.child as ChildProcess, 'exit')
  // However long the next server takes to start, the killed one counts as alive first and as dead later.
  await setSilence(0)
  const last = await startServe(dms)
  await setSilence(0)
  const join = async () => (await (await openWebSocket(`${last.url}/ws`)).join(token)).type
  expect([await join(), await join(), await join(), await join()]).toEqual(['auth_success', 'auth_success', 'auth_success', 'error'])
  await setSilence(51)
  expect([await join(), await join(), await join()]).toEqual(['auth_success', 'auth_success', 'error'])
})
