/** A real Meilisearch server of a test, which can be killed, frozen, and restarted on its data. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { environment } from '../../../src/config/environment.ts'
import { bareEnvironment } from '../processes/run.ts'
import { freePort } from './free-port.ts'

/** The program; empty if MEILI_BIN names none. */
export const program = environment().MEILI_BIN ?? ''

const startTimeout = 30_000

export interface MeilisearchServer {
  readonly url: string
  readonly key: string
  /** Starts or restarts it on its data; resolves when it answers. `under`: a program with arguments that executes it. */
  start(under?: readonly string[]): Promise<void>
  /** Kills its processes, as a power cut would. */
  kill(): Promise<void>
  freeze(): void
  thaw(): void
  /** Sends a request without dms; throws with the answer if it refuses. */
  ask<T>(method: string, path: string, body?: unknown): Promise<T>
  /** Kills it, and removes its data. */
  remove(): Promise<void>
}

/** Creates one without starting it. */
export async function meilisearchServer(): Promise<MeilisearchServer> {
  const folder = await mkdtemp(join(tmpdir(), 'dms-meilisearch-'))
  const port = await freePort()
  const [url, key] = [`http://127.0.0.1:${port}`, 'a master key of 16 bytes or more']
  let running: { pid: number; exit: Promise<unknown> } | null = null

  const signal = (name: NodeJS.Signals) => running && process.kill(running.pid, name)
  const ask = async <T>(method: string, path: string, body?: unknown): Promise<T> => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const response = await fetch(`${url}${path}`, { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) })
    if (!response.ok) throw new Error(`${response.status} ${await response.text()}`)
    return (await response.json()) as T
  }
  const kill = async () => {
    signal('SIGCONT')
    signal('SIGKILL')
    await running?.exit
    running = null
  }

  return {
    url,
    key,
    async start(under = []) {
      const [command = program, ...rest] = [...under, program]
      const flags = [
        '--http-addr',
        `127.0.0.1:${port}`,
        '--db-path',
        join(folder, 'data'),
        '--max-indexing-memory',
        '256MiB',
        '--no-analytics',
      ]
      const child = spawn(command, [...rest, ...flags], {
        env: bareEnvironment({ MEILI_MASTER_KEY: key }),
        cwd: folder,
        stdio: 'ignore',
      })
      const exit = once(child, 'exit')
      running = { pid: child.pid ?? 0, exit }
      const until = performance.now() + startTimeout
      while (!(await ask('GET', '/health').catch(() => null))) {
        if (child.exitCode !== null || performance.now() > until) throw new Error('Meilisearch did not come up')
        await sleep(50)
      }
    },
    kill,
    freeze: () => void signal('SIGSTOP'),
    thaw: () => void signal('SIGCONT'),
    ask,
    async remove() {
      await kill()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
