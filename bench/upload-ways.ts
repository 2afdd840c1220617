/** Ways to write bytes to one disk, which `bench/upload.ts` compares. */
import { execFile, spawn } from 'node:child_process'
import { randomBytes, randomInt, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { chmod, mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import { Agent, request } from 'node:http'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Page } from '../src/client/client.ts'
import { startServed } from '../test/support/servers/served.ts'

export interface UploadMethod {
  /** null if it is no server */
  readonly pid: number | null
  /** Writes `bytes` to the disk and flushes them. */
  put(bytes: number): Promise<void>
  /** Waits for work that `put` left behind. */
  rest(): Promise<void>
  /** Waits as well, and frees the space. */
  settle(): Promise<void>
  close(): Promise<void>
}

const run = promisify(execFile)
const chunk = 1 << 20
/** Bodies are incompressible parts of it, so that the sender costs little. */
const pool = randomBytes(16 << 20)
const agent = new Agent({ keepAlive: true, maxSockets: 64 })

/** `dms serve` with its defaults. */
export async function dms(folder: string): Promise<UploadMethod> {
  const { url, pid, token, client, stop, remove } = await startServed({ below: folder })
  const rest = async () => {
    while ((await client.call<Page<unknown>>('GET', '/api/documents?status=pending,processing&per_page=1')).data.length > 0)
      await sleep(100)
  }
  return {
    pid,
    rest,
    async put(bytes) {
      const boundary = randomUUID()
      const before = `--${boundary}\r\ncontent-disposition: form-data; name="file"; filename="${boundary}.bin"\r\n\r\n`
      const headers = { authorization: `Bearer ${token}`, 'content-type': `multipart/form-data; boundary=${boundary}` }
      await post(`${url}/api/documents/upload`, headers, before, bytes, `\r\n--${boundary}--\r\n`)
    },
    async settle() {
      await rest()
      for await (const { id } of client.documents.list({ fields: 'id' })) await client.documents.delete(id, { permanent: true })
    },
    async close() {
      await stop()
      await remove()
    },
  }
}

/** A bare node:http handler in another process. `withRows`: it commits a row for each file to PostgreSQL. */
export async function rawServer(below: string, { withRows = false } = {}): Promise<UploadMethod> {
  const root = await mkdtemp(join(below, 'raw-'))
  // Under root the database runs as another user, who must be able to enter the folder.
  await chmod(root, 0o711)
  const folder = join(root, 'files')
  await mkdir(folder)
  const program = fileURLToPath(new URL('./raw-upload-server.ts', import.meta.url))
  const words = withRows ? [program, folder, join(root, 'data')] : [program, folder]
  const child = spawn(process.execPath, words, { stdio: ['ignore', 'pipe', 'inherit'] })
  const [port] = await once(child.stdout.setEncoding('utf8'), 'data')
  return {
    pid: child.pid ?? 0,
    put: (bytes) => post(`http://127.0.0.1:${String(port).trim()}`, {}, '', bytes, ''),
    rest: async () => {},
    settle: () => empty(folder),
    async close() {
      child.kill()
      await once(child, 'exit')
      await rm(root, { recursive: true })
    },
  }
}

/** The program dd, which flushes at its end. */
export async function dd(below: string): Promise<UploadMethod> {
  const folder = await mkdtemp(join(below, 'dd-'))
  return {
    pid: null,
    async put(bytes) {
      await run('dd', ['if=/dev/zero', `of=${join(folder, randomUUID())}`, 'bs=1MB', `count=${Math.ceil(bytes / 1e6)}`, 'conv=fsync'])
    },
    rest: async () => {},
    settle: () => empty(folder),
    close: () => rm(folder, { recursive: true }),
  }
}

async function post(url: string, headers: Record<string, string>, before: string, bytes: number, after: string): Promise<void> {
  const length = Buffer.byteLength(before) + bytes + Buffer.byteLength(after)
  const sent = request(url, { method: 'POST', agent, headers: { ...headers, 'content-length': length } })
  const answered = once(sent, 'response')
  await pipeline(Readable.from(body(before, bytes, after)), sent)
  const [response] = await answered
  const answer = await text(response)
  if (response.statusCode !== 201) throw new Error(`${url} answered ${response.statusCode}: ${answer}`)
}

/** Two bodies of at least 16 bytes are never the same: dms refuses duplicates. */
function* body(before: string, bytes: number, after: string): Generator<Buffer> {
  const unique = randomBytes(Math.min(16, bytes))
  yield Buffer.concat([Buffer.from(before), unique])
  for (let left = bytes - unique.length; left > 0; left -= chunk) {
    const from = randomInt(pool.length - chunk)
    yield pool.subarray(from, from + Math.min(chunk, left))
  }
  yield Buffer.from(after)
}

async function empty(folder: string): Promise<void> {
  for (const name of await readdir(folder)) await rm(join(folder, name))
}
