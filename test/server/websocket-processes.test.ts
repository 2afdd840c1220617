/** /ws with real processes: `dms serve` twice and `dms worker` on one database, stopped well and badly. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { sql } from 'kysely'
import { expect, onTestFinished, test } from 'vitest'
import { startApp, upload } from '../support/app.ts'
import { openWebSocket } from '../support/processes/live.ts'
import { bareEnvironment, executable } from '../support/processes/run.ts'
import { tokenFor } from '../support/servers/server.ts'

type Dms = Awaited<ReturnType<typeof startApp>>

function startProcess(dms: Dms, args: readonly string[]): ChildProcess {
  const env = bareEnvironment({
    DATABASE_URL: dms.databaseUrl,
    DMS_STORAGE_MIN_FREE: '0',
    DMS_WORKER_EMBEDDED: 'false',
    DMS_LOG_LEVEL: 'error',
  })
  const child = spawn(process.execPath, [executable, ...args, '--data-dir', dms.dataDir], { env, stdio: ['ignore', 'ignore', 'pipe'] })
  onTestFinished(async () => {
    if (child.exitCode === null && child.signalCode === null && child.kill('SIGKILL')) await once(child, 'exit')
  })
  return child
}

async function startServer(dms: Dms): Promise<{ child: ChildProcess; url: string }> {
  const child = startProcess(dms, ['serve', '--port', '0'])
  for await (const line of createInterface(child.stderr as NodeJS.ReadableStream)) {
    const url = /^listening on http(\S+)/.exec(line)?.[1]
    if (url) return { child, url: `ws${url}/ws` }
  }
  throw new Error('the server did not start')
}

test('events of a worker process arrive; a stopped server says 1001 and is gone; a killed one frees its places', async () => {
  const dms = await startApp()
  const servers = await Promise.all([startServer(dms), startServer(dms)])
  const token = await tokenFor(dms.app, dms.ada)
  // Each signs in at once: a socket without a session is closed after ten seconds.
  const subscribe = async (server: number) => {
    const socket = await openWebSocket(servers[server]?.url ?? '')
    expect((await socket.join(token, ['ocr_progress'])).type).toBe('subscribed')
    return socket
  }
  const sockets = await Promise.all([0, 1, 0, 1, 0].map(subscribe))
  const places = () => dms.app.db.selectFrom('live_places').select('id').execute()
  expect(await places()).toHaveLength(5)

  const { id } = await upload(dms.asAda, 'a.txt', 'words', { ocr_enabled: false })
  expect(await once(startProcess(dms, ['worker', '--once']), 'exit')).toEqual([0, null])
  for (const socket of sockets) {
    expect(await socket.next('ocr_progress')).toMatchObject({ document_id: id, progress: 0, status: 'processing' })
    expect(await socket.next(({ progress }) => progress === 100)).toMatchObject({ document_id: id, status: 'completed' })
  }

  const [stopped, killed] = servers
  const asked = performance.now()
  stopped?.child.kill('SIGTERM')
  for (const number of [0, 2, 4]) expect((await sockets[number]?.closed)?.code).toBe(1001)
  expect(await once(stopped?.child as ChildProcess, 'exit')).toEqual([0, null])
  expect(performance.now() - asked).toBeLessThan(5000)
  expect(await places()).toHaveLength(2)

  const { server_id } = await dms.app.db.selectFrom('live_places').select('server_id').distinct().executeTakeFirstOrThrow()
  const setSilence = (seconds: number) =>
    sql`update servers set seen_at = now() - ${seconds} * interval '1 second' where id = ${server_id}`.execute(dms.app.db)
  killed?.child.kill('SIGKILL')
  await once(killed?.child as ChildProcess, 'exit')
  // However long the next server takes to start, the killed one counts as alive first and as dead later.
  await setSilence(0)
  const last = await startServer(dms)
  await setSilence(0)
  const join = async () => (await (await openWebSocket(last.url)).join(token)).type
  expect([await join(), await join(), await join(), await join()]).toEqual(['auth_success', 'auth_success', 'auth_success', 'error'])
  await setSilence(51)
  expect([await join(), await join(), await join()]).toEqual(['auth_success', 'auth_success', 'error'])
})
