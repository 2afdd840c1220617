/** `dms serve` and `dms worker` as processes of their own, on the database and the files of startApp(). */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { onTestFinished } from 'vitest'
import type { startApp } from '../app.ts'
import { bareEnvironment, executable } from './run.ts'

type Dms = Awaited<ReturnType<typeof startApp>>

/** Starts a process, which is killed with the test. `said` collects its log. */
export function startProcess(dms: Dms, args: readonly string[], env: Record<string, string> = {}): { child: ChildProcess; said: string[] } {
  const variables = bareEnvironment({
    DATABASE_URL: dms.databaseUrl,
    DMS_DATA_DIR: dms.dataDir,
    DMS_STORAGE_MIN_FREE: '0',
    DMS_WORKER_EMBEDDED: 'false',
    DMS_LOG_LEVEL: 'error',
    DMS_LOG_FORMAT: 'json',
    ...env,
  })
  const child = spawn(process.execPath, [executable, ...args], { env: variables, stdio: ['ignore', 'ignore', 'pipe'] })
  const said: string[] = []
  createInterface(child.stderr as NodeJS.ReadableStream).on('line', (line) => said.push(line))
  onTestFinished(async () => {
    if (child.exitCode === null && child.signalCode === null && child.kill('SIGKILL')) await once(child, 'exit')
  })
  return { child, said }
}

/** Starts a server on a free port and waits until it listens. */
export async function startServe(
  dms: Dms,
  env: Record<string, string> = {},
): Promise<{ child: ChildProcess; said: string[]; url: string }> {
  const { child, said } = startProcess(dms, ['serve', '--port', '0'], env)
  const ended = once(child, 'exit').then(() => true)
  for (;;) {
    const url = said.map((line) => /^listening on (http\S+)/.exec(line)?.[1]).find((found) => found !== undefined)
    if (url) return { child, said, url }
    if (await Promise.race([ended, once(child.stderr as NodeJS.ReadableStream, 'data').then(() => false)]))
      throw new Error(`the server did not start: ${said.join(' | ')}`)
  }
}
