/** Tests connections to sources. */
import type { Actor } from '../actor.ts'
import type { App } from '../app.ts'
import { type SourceConnection, SourceFailure } from '../ports/source-type.ts'
import { assertTypeAllowed, findWithOwner, type OwnedSource, openAddress, openSource, type SourceTarget } from './open-source.ts'
import { get } from './sources.ts'

export interface ConnectionTest {
  ok: boolean
  checks: { name: string; ok: boolean; message: string }[]
  sample: string[]
}

const testTimeoutMs = 30_000

/** Tests an existing source. Throws SOURCE_NOT_FOUND. */
export async function testSource(app: App, actor: Actor, id: string): Promise<ConnectionTest> {
  await get(app, actor, id)
  return runTest(async () => openSource(app, (await findWithOwner(app.db, id)) as OwnedSource, app.config.sources.concurrency))
}

/** Tests an address before a source is created. Throws FORBIDDEN. */
export async function testAddress(app: App, actor: Actor, address: SourceTarget): Promise<ConnectionTest> {
  assertTypeAllowed(actor, address.type)
  return runTest(async () => openAddress(app, address, actor.role, app.config.sources.concurrency))
}

async function runTest(connect: () => Promise<SourceConnection>): Promise<ConnectionTest> {
  let connection: SourceConnection
  try {
    connection = await connect()
  } catch (error) {
    if (!(error instanceof SourceFailure)) throw error
    const name = error.code.startsWith('SOURCE_OWNER_') ? 'owner' : 'address'
    return { ok: false, checks: [{ name, ok: false, message: error.message }], sample: [] }
  }
  try {
    const { checks, sample } = await connection.test(AbortSignal.timeout(testTimeoutMs))
    return { ok: checks.every(({ ok }) => ok), checks, sample }
  } finally {
    await connection.close()
  }
}
