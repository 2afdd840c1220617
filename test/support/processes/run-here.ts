/** Runs `dms` in this process, for tests that need no process of their own. It takes a tenth of the CPU time. */
import { AsyncLocalStorage } from 'node:async_hooks'
import fs from 'node:fs'
import { join } from 'node:path'
import { Readable, Writable } from 'node:stream'
import { run as runLine, type Streams } from '../../../commands/program.ts'
import { bareEnvironment, type Ended, type RunOptions } from './run.ts'

const names = ['stdin', 'stdout', 'stderr'] as const
type OwnStreams = Record<(typeof names)[number], Readable | Output>

/** Streams of the running command. Commands may overlap. */
const running = new AsyncLocalStorage<OwnStreams & { stderr: Output }>()

class Output extends Writable {
  readonly #chunks: Buffer[] = []
  override _write(chunk: Buffer, _: BufferEncoding, callback: () => void): void {
    this.#chunks.push(chunk)
    callback()
  }
  get text(): string {
    return Buffer.concat(this.#chunks).toString()
  }
}

for (const name of names) {
  const own = Object.getOwnPropertyDescriptor(process, name)
  Object.defineProperty(process, name, { ...own, configurable: true, get: () => running.getStore()?.[name] ?? own?.get?.call(process) })
}

/** The log writes to the descriptor of standard error. */
const { writeSync } = fs
fs.writeSync = ((fd: number, data: string | Buffer, ...rest: []) => {
  const store = fd === 2 ? running.getStore() : undefined
  if (!store) return writeSync(fd, data as string, ...rest)
  store.stderr.write(data)
  return Buffer.byteLength(data)
}) as typeof fs.writeSync

/** Runs `dms args…` to its end, on pipes. Signals, terminals, `--data-dir` of another owner and an exit that something prevents need run(). */
export async function runHere(
  args: readonly string[],
  { env, input = '', timeout = 120_000 }: Pick<RunOptions, 'env' | 'input' | 'timeout'> = {},
): Promise<Ended> {
  const variables = bareEnvironment(env)
  const home = variables.HOME ?? ''
  // Node reads the home of this process, not of `env`.
  const folders = { XDG_CONFIG_HOME: '.config', XDG_STATE_HOME: '.local/state', XDG_DATA_HOME: '.local/share', XDG_CACHE_HOME: '.cache' }
  for (const [name, folder] of Object.entries(folders)) variables[name] ||= join(home, folder)
  const streams = { stdin: Readable.from([Buffer.from(input)]), stdout: new Output(), stderr: new Output() }
  const { promise: tooLong, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error(`dms ${args.join(' ')} did not end within ${timeout} ms`)), timeout)
  const line = running.run(streams, () => runLine(args, { env: variables, ...streams } as unknown as Streams))
  const code = await Promise.race([line, tooLong]).finally(() => clearTimeout(timer))
  return { code, signal: null, stdout: streams.stdout.text, stderr: streams.stderr.text }
}
