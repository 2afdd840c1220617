/** A relay to the PostgreSQL of the tests that can be cut, as by a network failure or a restart. */
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { tie } from '../data/tied.ts'

/** Opens it; it is closed with the test. `url`: of a database of the test. */
export async function startRelay(url: string) {
  const folder = await mkdtemp(join(tmpdir(), 'dms-relay-'))
  const { searchParams } = new URL(url)
  const socketName = `.s.PGSQL.${searchParams.get('port')}`
  const real = join(searchParams.get('host') ?? '', socketName)
  const through = new Set<Socket>()
  const senders = new Set<Socket>()
  let isSilent = false
  let loss: { statement: string; done: () => void } | null = null
  const server = createServer((near) => {
    const far = connect(real)
    tie(near, far, through)
    senders.add(near)
    if (isSilent) return
    near.pipe(far).pipe(near)
    near.on('data', (piece) => {
      if (!loss || !piece.includes(loss.statement)) return
      const { done } = loss
      loss = null
      far.unpipe(near)
      // PostgreSQL has it, and has had the time to do it, before it learns that nobody listens any more.
      setTimeout(() => {
        near.destroy()
        done()
      }, 300)
    })
  })
  const resume = async () => {
    server.listen(join(folder, socketName))
    await once(server, 'listening')
  }
  const cut = async () => {
    const closed = once(server, 'close')
    server.close()
    for (const socket of through) socket.destroy()
    await closed
    isSilent = false
  }
  await resume()
  onTestFinished(async () => {
    if (server.listening) await cut()
    await rm(folder, { recursive: true, force: true })
  })
  const address = new URL(url)
  address.searchParams.set('host', folder)
  return {
    /** URL of the database through the relay */
    url: address.href,
    /** Closes all connections and refuses new ones. */
    cut,
    /** Accepts connections again. */
    resume,
    /** Closes the next connection that sends this statement before its answer arrives; resolves then. */
    loseAnswerTo: (statement: string) =>
      new Promise<void>((done) => {
        loss = { statement: `${statement}\0`, done }
      }),
    /** Withholds requests on existing connections from now on; answers still pass. */
    withholdRequests() {
      for (const sender of senders) sender.unpipe()
    },
    /** Answers nothing from now on, on existing and new connections; `cut` and `resume` end that. */
    silence() {
      isSilent = true
      for (const socket of through) socket.unpipe().pause()
    },
  }
}
