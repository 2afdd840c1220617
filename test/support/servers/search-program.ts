/** The program of a search engine in a test, which can be killed, frozen and restarted on its data. */
import { type SpawnOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'

export interface SearchProgram {
  readonly url: string
  /** Kills its processes, as a power cut would. */
  kill(): Promise<void>
  freeze(): void
  thaw(): void
  /** Sends a request without dms; throws with the answer if it refuses. */
  ask<T>(method: string, path: string, body?: unknown): Promise<T>
  /** Kills it, and removes its folder. */
  remove(): Promise<void>
}

interface StartOptions {
  readonly options: SpawnOptions
  /** path that answers when the program is ready */
  readonly healthPath: string
  readonly timeoutMs: number
}

/** Controls a program that answers at `url` and keeps everything in `folder`. Does not start it. */
export function controlProgram(url: string, folder: string, headers: Record<string, string> = {}) {
  let running: { pid: number; exit: Promise<unknown> } | null = null

  const signal = (name: NodeJS.Signals) => running && process.kill(running.pid, name)
  const ask = async <T>(method: string, path: string, body?: unknown): Promise<T> => {
    const response = await fetch(`${url}${path}`, {
      method,
      headers: { ...headers, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    if (!response.ok) throw new Error(`${response.status} ${await response.text()}`)
    return (await response.json()) as T
  }
  const kill = async () => {
    signal('SIGCONT')
    signal('SIGKILL')
    await running?.exit
    running = null
  }
  const controls: SearchProgram = {
    url,
    kill,
    freeze: () => void signal('SIGSTOP'),
    thaw: () => void signal('SIGCONT'),
    ask,
    async remove() {
      await kill()
      await rm(folder, { recursive: true, force: true })
    },
  }
  /** Starts the program and resolves when it answers. */
  const start = async (command: string, args: readonly string[], { options, healthPath, timeoutMs }: StartOptions): Promise<void> => {
    const child = spawn(command, args, { cwd: folder, stdio: 'ignore', ...options })
    const started = { pid: child.pid ?? 0, exit: once(child, 'exit') }
    running = started
    void started.exit.then(() => {
      if (running === started) running = null
    })
    const until = performance.now() + timeoutMs
    while (!(await ask('GET', healthPath).catch(() => null))) {
      if (child.exitCode !== null || performance.now() > until) throw new Error(`${command} did not come up; its folder is ${folder}`)
      await sleep(50)
    }
  }
  return { controls, start }
}
