/** System calls of a running process: recorded, made to fail, or used to kill it. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'

export interface Attached {
  /** Detaches; the process continues. */
  detach(): Promise<void>
}

/** Attaches to all threads. Resolves when strace is attached. Throws if attaching is not permitted. */
export async function attach(pid: number, args: readonly string[]): Promise<Attached> {
  const child = spawn('strace', ['-f', ...args, '-p', String(pid)], { stdio: ['ignore', 'ignore', 'pipe'] })
  const ended = once(child, 'exit')
  const output = Promise.withResolvers<void>()
  let text = ''
  child.stderr.setEncoding('utf8').on('data', (piece: string) => {
    text += piece
    if (/attached/.test(text)) output.resolve()
  })
  void ended.then(() => output.reject(new Error(`strace ended: ${text}`)))
  await output.promise
  // The last threads may not be attached yet.
  await sleep(50)
  return {
    async detach() {
      child.kill('SIGINT')
      await ended
    },
  }
}
