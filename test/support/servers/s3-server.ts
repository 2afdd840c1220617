/**
 * A real S3 server: OpenStack Swift with its S3 API, from Debian's packages swift-proxy, swift-account, swift-container and swift-object. It
 * checks signatures with independent code and requires its region; S3 servers on npm are made for tests, and a fake would share our mistakes.
 * With DMS_TEST_S3=radosgw it is Ceph's gateway: see radosgw.sh. With DMS_TEST_S3=http://… it is a running server, whose keys are in
 * AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
 */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { AwsV4Signer } from 'aws4fetch'
import { bareEnvironment, hasProgram } from '../processes/run.ts'
import { freePort } from './free-port.ts'

export interface S3Server {
  /** ends with `/` */
  readonly url: string
  readonly username: string
  readonly password: string
  /** Sends a signed request to `path` (not encoded: bucket/key). Throws unless it answers 2xx. */
  send(
    method: 'PUT' | 'DELETE' | 'POST',
    path: string,
    options?: { body?: string; headers?: Record<string, string>; query?: string },
  ): Promise<Response>
  stop(): Promise<void>
}

/** Not the usual region: a client that ignores the answers of the server is refused. */
const region = 'eu-test-1'
const { DMS_TEST_S3: chosen, AWS_ACCESS_KEY_ID: username = 'test:ann', AWS_SECRET_ACCESS_KEY: password = 'sec/ret+key==' } = process.env
const isRunning = chosen?.startsWith('http') ?? false
const program = (name: string) => fileURLToPath(new URL(name, import.meta.url))
const python = '/usr/bin/python3'
const isRadosgw = chosen === 'radosgw'

/** Fails if files cannot have user attributes, in which Swift stores the metadata of objects. */
const attributes =
  'import os, sys, tempfile\nwith tempfile.NamedTemporaryFile(dir=sys.argv[1]) as file: os.setxattr(file.name, "user.dms", b"x")'

/** Returns whether the server can be started here; prints a note otherwise. */
export function hasS3Server(): boolean {
  if (isRunning) return true
  if (isRadosgw) return ['radosgw', 'radosgw-admin', 'ceph', 'ceph-mon', 'ceph-osd'].every(hasProgram)
  const needed = [python, ...['proxy', 'account', 'container', 'object'].map((name) => `/usr/bin/swift-${name}-server`)]
  const isThere = needed.every((path) => existsSync(path))
  if (!isThere) process.stderr.write('skipped: no OpenStack Swift on this machine\n')
  if (!isThere) return false
  const { status } = spawnSync(python, ['-c', attributes, tmpdir()], { env: bareEnvironment() })
  if (status !== 0) process.stderr.write(`skipped: OpenStack Swift needs extended attributes, and ${tmpdir()} has none\n`)
  return status === 0
}

/** Starts it on a free port; the caller stops it. Throws with its output if it does not start. */
export async function startS3(): Promise<S3Server> {
  if (isRunning && chosen !== undefined) return clientOf(new URL(chosen).href, async () => undefined)
  const home = await mkdtemp(join(tmpdir(), 'dms-s3-'))
  const [command, words] = isRadosgw
    ? [program('radosgw.sh'), [home, String(await freePort()), String(await freePort()), username, password]]
    : [python, [program('s3-server.py'), home, region]]
  const child = spawn(command, words, { env: bareEnvironment(), stdio: ['pipe', 'pipe', 'pipe'], detached: true })
  const exit = once(child, 'exit')
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text
  })
  const stop = async () => {
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, 'SIGKILL')
    await exit
    await rm(home, { recursive: true, force: true, maxRetries: 3 })
  }
  const ended = exit.then(() => null)
  const [line] = (await Promise.race([once(child.stdout, 'data'), ended])) ?? []
  if (line === undefined) {
    await stop()
    throw new Error(`S3 does not start: ${said}`)
  }
  return clientOf(`http://127.0.0.1:${Number(line)}/`, stop)
}

function clientOf(url: string, stop: () => Promise<void>): S3Server {
  return {
    url,
    username,
    password,
    stop,
    async send(method, path, { body, headers, query = '' } = {}) {
      // In one piece: URL would resolve the “..” of a name, however it is encoded.
      const [bucket = '', ...key] = path.split('/')
      const encoded = [bucket, ...(key.length === 0 ? [] : [encodeURIComponent(key.join('/'))])].join('/')
      const signer = new AwsV4Signer({
        method,
        url: `${url}${encoded}${query}`,
        headers,
        body,
        accessKeyId: username,
        secretAccessKey: password,
        service: 's3',
        region,
      })
      const signed = await signer.sign()
      const response = await fetch(signed.url, { method, headers: signed.headers, body })
      if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`)
      return response
    },
  }
}
