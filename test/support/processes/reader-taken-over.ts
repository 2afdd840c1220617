/** Replaces a parser that a file has taken over: tries what it must not reach, and reports the result of each attempt. */
import { spawnSync } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'

export interface Aims {
  /** address of a listener on 127.0.0.1 */
  readonly port: number
  /** path of a listening Unix socket */
  readonly socket: string
  /** a folder with a file `secret.txt` */
  readonly folder: string
  /** a file that it was given */
  readonly given: string
}

/** `done`, or the error. */
export type Outcomes = Record<string, string>

/** Runs native code, which the permissions of Node do not cover. */
const connecting =
  "require('net').connect(+process.argv[1], '127.0.0.1').on('connect', () => process.exit()).on('error', (e) => console.log(e.code))"

/** Tries one thing, and waits for the event that reports its success, if there is one. */
async function attempt(what: () => unknown): Promise<string> {
  try {
    await what()
    return 'done'
  } catch (error) {
    const { code, cause } = error as { code?: string; cause?: { code?: string } }
    return code ?? cause?.code ?? String(error).trim()
  }
}

async function attempts({ port, socket, folder, given }: Aims): Promise<Outcomes> {
  const secret = join(folder, 'secret.txt')
  const own = join(process.cwd(), 'link')
  return {
    connect: await attempt(() => once(connect(port, '127.0.0.1'), 'connect')),
    'connect to a file': await attempt(() => once(connect(socket), 'connect')),
    listen: await attempt(() => once(createServer().listen(0), 'listening')),
    datagram: await attempt(() => once(createSocket('udp4').bind(0), 'listening')),
    fetch: await attempt(() => fetch(`http://127.0.0.1:${port}/`)),
    read: await attempt(() => readFileSync(secret)),
    list: await attempt(() => readdirSync(folder)),
    'read by a link': await attempt(() => {
      symlinkSync(secret, own)
      readFileSync(own)
    }),
    write: await attempt(() => writeFileSync(join(folder, 'new.txt'), '')),
    'connect by a program': await attempt(() => {
      const { error, stdout } = spawnSync('env', ['-i', process.execPath, '-e', connecting, String(port)], { encoding: 'utf8' })
      if (error || stdout !== '') throw error ?? stdout
    }),
    'read what it was handed': await attempt(() => readFileSync(given)),
    'change what it was handed': await attempt(() => writeFileSync(given, '')),
    'write to its folder': await attempt(() => writeFileSync(join(process.cwd(), 'own'), '')),
  }
}

if (isMainThread)
  process.once('message', async (aims: Aims) => {
    const thread = new Worker(new URL(import.meta.url), { workerData: aims })
    const [inThread] = (await once(thread, 'message')) as [Outcomes]
    process.send?.([await attempts(aims), inThread])
  })
else parentPort?.postMessage(await attempts(workerData as Aims))
