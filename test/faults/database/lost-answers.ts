/** F14: a COMMIT succeeds but its acknowledgement is lost. */
import { randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdir } from 'node:fs/promises'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { tie } from '../../support/data/tied.ts'
import { sha256Of } from '../caller.ts'
import { type Fault, type FaultContext, type FaultResult, openFaultRun } from '../fault.ts'

export const lostAnswers: Fault = { id: 'F14', name: 'acknowledgement of COMMIT lost', run }

async function run({ installation, isShort }: FaultContext): Promise<FaultResult> {
  const rounds = isShort ? 10 : 100
  // Starts the database for the relay: it survives a killed server.
  await (await installation.start()).kill()
  const relay = await openRelay(join(installation.folder, 'relay'), (await installation.connection()).host ?? '')
  installation.atEnd(relay.close)
  const server = await installation.start({ env: { DATABASE_URL: `postgres://dms@localhost/dms?host=${relay.folder}&port=5432` } })
  const faultRun = await openFaultRun(installation)
  const { caller, expect, notes } = faultRun
  let stored = 0
  for (let round = 0; round < rounds; round++) {
    const bytes = randomBytes(1000)
    const key = randomUUID()
    const cut = relay.cutNextCommit()
    const first = await caller.upload(bytes, 'ambiguous.bin', { key })
    expect(first.status === 503, `round ${round}: answered with ${first.status}`)
    expect(cut(), `round ${round}: no COMMIT came by`)
    await sleep(50)
    const [row] = await installation.query<{ count: number }>(
      `select count(*)::int as count from documents where sha256 = '${sha256Of(bytes)}'`,
    )
    stored += row?.count ?? 0
    const again = await caller.upload(bytes, 'ambiguous.bin', { key })
    expect(again.status === 201, `round ${round}: the second try is answered with ${again.status}`)
  }
  notes.push(`${stored} of ${rounds} were committed; a second try with the same key made no second document`)
  const result = await faultRun.finish(`${rounds} COMMITs`)
  await server.kill()
  return result
}

/** Opens a relay to PostgreSQL that loses the answer to the next COMMIT of a new document on request. */
async function openRelay(folder: string, realFolder: string) {
  const socketName = '.s.PGSQL.5432'
  let isArmed = false
  let isCut = false
  const through = new Set<Socket>()
  const server = createServer((near) => {
    const far = connect(join(realFolder, socketName))
    let isInsert = false
    tie(near, far, through)
    far.pipe(near)
    near.on('data', (piece) => {
      if (/insert into "?documents"?\s/.test(piece.toString('latin1'))) isInsert = true
      if (piece.includes('commit\0') || piece.includes('rollback\0')) {
        if (isArmed && isInsert && piece.includes('commit\0')) {
          isArmed = false
          isCut = true
          far.unpipe(near)
          // PostgreSQL receives the COMMIT before the end of the connection.
          setTimeout(() => near.destroy(), 100)
        }
        isInsert = false
      }
      far.write(piece)
    })
  })
  await mkdir(folder)
  server.listen(join(folder, socketName))
  await once(server, 'listening')
  return {
    folder,
    /** Returns whether the answer was lost. */
    cutNextCommit: () => {
      isArmed = true
      isCut = false
      return () => isCut
    },
    close: () => {
      server.close()
      for (const socket of through) socket.destroy()
    },
  }
}
