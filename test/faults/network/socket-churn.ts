/** F26: WebSockets connect and disconnect quickly; some clients vanish. */
import { setTimeout as sleep } from 'node:timers/promises'
import { type Fault, type FaultContext, type FaultResult, openFaultRun } from '../fault.ts'
import { joinLive, type LiveSocket } from './sockets.ts'

/** ws_connections_per_user */
const most = 5
/** maximum milliseconds until the slot of a vanished client is free: two pings of 30 s and a margin */
const mostUntilFreeMs = 75_000
const atOnce = 4
/** maximum milliseconds until the slot of an ended connection is free, on a busy machine */
const mostUntilReleasedMs = 30_000

export const socketChurn: Fault = { id: 'F26', name: 'WebSockets that come and go, or vanish without a word', isLong: true, run }

async function run({ installation, isShort }: FaultContext): Promise<FaultResult> {
  const churn = isShort ? 120 : 2000
  const server = await installation.start({ env: { DMS_WORKER_EMBEDDED: 'false' } })
  const faultRun = await openFaultRun(installation)
  const { caller, expect, notes } = faultRun
  const join = () => joinLive(installation.port, caller.token(), ['queue_status'])
  const taken = async () => (await installation.query<{ count: number }>('select count(*)::int as count from live_places'))[0]?.count ?? -1

  let [refused, retries] = [0, 0]
  const startedAt = performance.now()
  let remaining = churn
  const openAndClose = async () => {
    while (remaining-- > 0) {
      let live = await join()
      // The server may not know yet that an earlier connection has ended.
      for (const end = performance.now() + mostUntilReleasedMs; !live && performance.now() < end; live = await join()) {
        retries++
        await sleep(100)
      }
      if (!live) refused++
      // Half of them send a close frame, half of them are reset.
      else if (remaining % 2 === 0) await closeWell(live)
      else live.tcp.resetAndDestroy()
      await sleep(10)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, openAndClose))
  const perMinute = (churn / (performance.now() - startedAt)) * 60_000
  // A slot is released shortly after its connection has ended.
  for (const end = performance.now() + mostUntilReleasedMs; (await taken()) > 0 && performance.now() < end; ) await sleep(100)
  expect((await taken()) === 0, `${await taken()} places are taken though all clients have gone`)
  expect(refused === 0, `${refused} of ${churn} were refused though at most ${atOnce} were open`)
  notes.push(`${churn} WebSockets, ${perMinute.toFixed(0)} a minute, ${retries} tried again`)

  if (!isShort) {
    const ghosts = await Promise.all(Array.from({ length: most }, join))
    expect(
      ghosts.every((ghost) => ghost !== null),
      'a user may not open five at once',
    )
    // Reads and answers nothing any more, and sends no FIN or RST.
    for (const ghost of ghosts) {
      if (ghost) ghost.answersPings = false
      ghost?.tcp.pause()
    }
    expect((await join()) === null, 'a sixth WebSocket was not refused')
    const vanished = performance.now()
    let next: LiveSocket | null = null
    while (!next && performance.now() - vanished < mostUntilFreeMs) {
      await sleep(1000)
      next = await join()
    }
    expect(next !== null, `no place is free ${mostUntilFreeMs / 1000} s after five clients have vanished`)
    notes.push(`the place of a vanished client is free after ${((performance.now() - vanished) / 1000).toFixed(0)} s`)
    next?.tcp.destroy()
    for (const ghost of ghosts) ghost?.tcp.destroy()
  }
  expect(server.isRunning(), 'the server ended')
  await server.kill()
  const last = await installation.start()
  const result = await faultRun.finish(`${churn} WebSockets${isShort ? '' : `, ${most} vanished`}`)
  await last.kill()
  return result
}

async function closeWell(live: LiveSocket): Promise<void> {
  const gone = new Promise((resolve) => live.tcp.once('close', resolve))
  // A close frame with code 1000, masked with zeros.
  live.tcp.write(Buffer.from([0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe8]))
  await Promise.race([gone, sleep(2000)])
  live.tcp.destroy()
}
