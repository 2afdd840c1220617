/** Tries of sources: whether one could get in, and what would be found. */
import type { Actor } from '../actor.ts'
import type { App } from '../app.ts'
import { type SourceConnection, SourceFailure } from '../ports/source-type.ts'
import { type Address, checkType, connected, type OwnedSource, open, withOwner } from './address.ts'
import { get } from './sources.ts'

export interface Tested {
  ok: boolean
  checks: { name: string; ok: boolean; message: string }[]
  sample: string[]
}

/** Milliseconds that a test may take. */
const testPatience = 30_000

/** Tries to get in. Throws SOURCE_NOT_FOUND. */
export async function test(app: App, actor: Actor, id: string): Promise<Tested> {
  await get(app, actor, id)
  return tested(async () => connected(app, (await withOwner(app.db, id)) as OwnedSource, app.config.sources.concurrency))
}

/** The same for one that is not made yet. Throws FORBIDDEN. */
export async function testAddress(app: App, actor: Actor, address: Address): Promise<Tested> {
  checkType(actor, address.type)
  return tested(async () => open(app, address, actor.role, app.config.sources.concurrency))
}

async function tested(connect: () => Promise<SourceConnection>): Promise<Tested> {
  let connection: SourceConnection
  try {
    connection = await connect()
  } catch (error) {
    if (!(error instanceof SourceFailure)) throw error
    const name = error.code.startsWith('SOURCE_OWNER_') ? 'owner' : 'address'
    return { ok: false, checks: [{ name, ok: false, message: error.message }], sample: [] }
  }
  try {
    const { checks, sample } = await connection.test(AbortSignal.timeout(testPatience))
    return { ok: checks.every(({ ok }) => ok), checks, sample }
  } finally {
    await connection.close()
  }
}
