/** A real Meilisearch server of a test, which can be killed, frozen, and restarted on its data. */
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { environment } from '../../../src/config/environment.ts'
import { bareEnvironment } from '../processes/run.ts'
import { freePort } from './free-port.ts'
import { controlProgram, type SearchProgram } from './search-program.ts'

/** The program; empty if MEILI_BIN names none. */
export const program = environment().MEILI_BIN ?? ''

export interface MeilisearchServer extends SearchProgram {
  readonly key: string
  /** Starts or restarts it on its data; resolves when it answers. `under`: a program with arguments that executes it. */
  start(under?: readonly string[]): Promise<void>
}

/** Creates one without starting it. */
export async function meilisearchServer(): Promise<MeilisearchServer> {
  const folder = await mkdtemp(join(tmpdir(), 'dms-meilisearch-'))
  const address = `127.0.0.1:${await freePort()}`
  const key = 'a master key of 16 bytes or more'
  const { controls, start } = controlProgram(`http://${address}`, folder, { authorization: `Bearer ${key}` })
  const flags = ['--http-addr', address, '--db-path', join(folder, 'data'), '--max-indexing-memory', '256MiB', '--no-analytics']
  return {
    ...controls,
    key,
    async start(under = []) {
      const [command = program, ...args] = [...under, program, ...flags]
      const options = { env: bareEnvironment({ MEILI_MASTER_KEY: key }) }
      await start(command, args, { options, healthPath: '/health', timeoutMs: 30_000 })
    },
  }
}
