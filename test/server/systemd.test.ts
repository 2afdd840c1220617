/** Protocol between systemd and a server: messages at start, stop and while healthy; its socket; its journal. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, open, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { Agent, request } from 'undici'
import { expect, onTestFinished, test } from 'vitest'
import { passedSocketFd } from '../../src/server/systemd.ts'
import { administer } from '../support/administer.ts'
import { startApp } from '../support/app.ts'
import { until } from '../support/processes/processes.ts'
import { bareEnvironment, executable, hasProgram, run } from '../support/processes/run.ts'

async function folderOf(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'dms-systemd-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}

interface Started {
  child: ChildProcess
  /** the rest of the line "listening on " */
  address: string
  /** all lines so far */
  said: readonly string[]
  databaseUrl: string
  /** Stops it. Returns its exit code. */
  stop(): Promise<number | null>
}

/** `dms serve` executed by a shell, so that LISTEN_PID is right; the `passed` file has descriptor 3. */
async function serve(args: readonly string[], env: Record<string, string>, passed: number | 'ignore' = 'ignore'): Promise<Started> {
  const { databaseUrl, dataDir } = await startApp()
  const line = '[ -z "$LISTEN_FDS" ] || export LISTEN_PID=$$; export WATCHDOG_PID=$$; exec "$0" "$@"'
  const child = spawn('sh', ['-c', line, process.execPath, executable, 'serve', '--no-worker', '--data-dir', dataDir, ...args], {
    env: bareEnvironment({ DATABASE_URL: databaseUrl, DMS_STORAGE_MIN_FREE: '0B', ...env }),
    stdio: ['ignore', 'ignore', 'pipe', passed],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  const exit = once(child, 'exit') as Promise<[number | null]>
  const said: string[] = []
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  void exit.then(() => reject(new Error(`it ended: ${said.join('\n')}`)))
  createInterface(child.stderr as NodeJS.ReadableStream).on('line', (text) => {
    said.push(text)
    const address = /^listening on (.*) \(/.exec(text)?.[1]
    if (address) resolve(address)
  })
  const stop = async () => {
    child.kill('SIGTERM')
    return (await exit)[0]
  }
  return { child, address: await promise, said, databaseUrl, stop }
}

async function placeOf(): Promise<Record<string, string>> {
  const { databaseUrl, dataDir } = await startApp()
  return { DATABASE_URL: databaseUrl, DMS_DATA_DIR: dataDir, DMS_STORAGE_MIN_FREE: '0B' }
}

const healthOf = async (address: string, dispatcher?: Agent): Promise<number> =>
  (await request(`${address}/healthz`, { dispatcher })).statusCode

test('READY=1 when it serves, WATCHDOG=1 while it runs, also without its external database, STOPPING=1 at its end', async () => {
  const folder = await folderOf()
  const told = join(folder, 'told')
  await writeFile(join(folder, 'systemd-notify'), `#!/bin/sh\necho "$NOTIFY_SOCKET $*" >> ${told}\n`)
  await chmod(join(folder, 'systemd-notify'), 0o755)
  const env = { PATH: `${folder}:${bareEnvironment().PATH}`, NOTIFY_SOCKET: '/run/test/notify', WATCHDOG_USEC: '900000' }
  const { address, stop, databaseUrl } = await serve(['--port', '0'], env)
  let lines: string[] = []
  const read = async () => {
    lines = (await readFile(told, 'utf8').catch(() => '')).trim().split('\n')
  }
  const watchdogs = async (count: number) => {
    while (lines.filter((line) => line.endsWith(' WATCHDOG=1')).length < count) await read()
  }
  await watchdogs(2)
  const database = /dms_test_\w+/.exec(databaseUrl)?.[0]
  await administer(
    `alter database ${database} allow_connections false`,
    `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${database}'`,
  )
  await watchdogs(lines.length + 3)
  await administer(`alter database ${database} allow_connections true`)
  expect(lines[0]).toMatch(`/run/test/notify READY=1 STATUS=listening on ${address} (schema `)
  expect(await stop()).toBe(0)
  await read()
  expect(lines.at(-1)).toBe('/run/test/notify STOPPING=1 STATUS=stopping')
})

const receiver = `
import os, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
print('bound', flush=True)
while True:
    text, fds, _, _ = socket.recv_fds(s, 4096, 4)
    for fd in fds: os.close(fd)
    print(text.decode().replace('\\n', ' '), flush=True)
`
const canReceive = hasProgram('python3') && hasProgram('systemd-notify')
if (!canReceive) process.stderr.write('skipped: without python3 and systemd-notify there is no notify socket to listen on\n')

test.skipIf(!canReceive)('equal messages on a real notify socket', async () => {
  const socket = join(await folderOf(), 'notify')
  const listener = spawn('python3', ['-c', receiver, socket], { env: bareEnvironment(), stdio: ['ignore', 'pipe', 'inherit'] })
  onTestFinished(() => void listener.kill())
  const heard: string[] = []
  createInterface(listener.stdout).on('line', (line) => heard.push(line))
  await until(() => heard.length > 0, 20_000)
  const { stop } = await serve(['--port', '0'], { NOTIFY_SOCKET: socket })
  await until(() => heard.some((line) => line.startsWith('READY=1')), 20_000)
  expect(await stop()).toBe(0)
  expect(heard.filter((line) => /^(READY|STOPPING)=1/.test(line)).map((line) => line.split(' ')[0])).toEqual(['READY=1', 'STOPPING=1'])
})

test('a socket of systemd is served and stays open; without it, exit 1 with the process that has the port', async () => {
  // Whoever has a socket open takes connections from it, the holder too: those are lost at once, and asked for again.
  const holder = createServer((connection) => connection.destroy())
  holder.listen(0, '127.0.0.1')
  await once(holder, 'listening')
  onTestFinished(() => void holder.close())
  const { port } = holder.address() as { port: number }
  const { fd } = (holder as unknown as { _handle: { fd: number } })._handle
  const env = await placeOf()
  for (const more of [[], ['--check']]) {
    const taken = await run(['serve', '--no-worker', '--port', String(port), ...more], { env })
    expect([taken.code, taken.stderr]).toEqual([1, expect.stringContaining(`port ${port} on 127.0.0.1 is in use (pid ${process.pid}, `)])
  }
  const free = await run(['serve', '--port', '0', '--check'], { env })
  expect([free.code, free.stderr]).toEqual([0, expect.stringMatching(/^could start \(schema /m)])
  const { address, stop } = await serve(['--port', '1'], { LISTEN_FDS: '1' }, fd)
  expect(address).toBe(`http://127.0.0.1:${port}`)
  await expect.poll(() => healthOf(address).catch(() => 0)).toBe(200)
  expect(await stop()).toBe(0)
  expect(holder.listening).toBe(true)
})

test('78 for more than one socket; those of another process are ignored', async () => {
  const { databaseUrl, dataDir } = await startApp()
  const env = { DATABASE_URL: databaseUrl, LISTEN_FDS: '2', LISTEN_PID: String(process.pid) }
  const ended = await run(['serve', '--no-worker', '--port', '0', '--data-dir', dataDir], { env })
  expect(ended).toMatchObject({ code: 78, stderr: expect.stringContaining('LISTEN_FDS=2: dms serves one socket') })
  expect(passedSocketFd({ LISTEN_FDS: '1', LISTEN_PID: '1' })).toBeNull()
})

test('a Unix socket replaces that of a crashed server; SIGHUP reads the log level again, SIGUSR1 prints the state', async () => {
  const folder = await folderOf()
  const path = join(folder, 'dms.sock')
  const crash = `require('net').createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, 'SIGKILL'))`
  await once(spawn(process.execPath, ['-e', crash], { env: bareEnvironment(), stdio: 'ignore' }), 'exit')
  expect((await stat(path)).isSocket()).toBe(true)
  const config = join(folder, 'config.toml')
  await writeFile(config, '[log]\nlevel = "error"\nformat = "json"\n')
  const { child, address, said, stop } = await serve(['--socket', path, '--config', config], {})
  expect(address).toBe(`unix:${path}`)
  child.kill('SIGUSR1')
  await writeFile(config, '[log]\nlevel = "info"\nformat = "json"\n')
  child.kill('SIGHUP')
  await until(() => child.kill('SIGUSR1') && said.some((line) => line.includes('"msg":"status"')), 20_000)
  expect(JSON.parse(said.find((line) => line.includes('"msg":"status"')) ?? '')).toMatchObject({ state: 'serving', connections: 0 })
  const agent = new Agent({ connect: { socketPath: path } })
  expect(await healthOf('http://dms', agent)).toBe(200)
  await agent.close()
  expect(await stop()).toBe(0)
})

const hasOpenssl = hasProgram('openssl')
if (!hasOpenssl) process.stderr.write('skipped: without openssl there are no certificates to change\n')

test.skipIf(!hasOpenssl)('SIGHUP loads a new certificate, and keeps the old one if the new one is invalid', async () => {
  const folder = await folderOf()
  const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')]
  const certify = (name: string) => {
    const subject = ['-days', '2', '-subj', `/CN=${name}`, '-addext', 'subjectAltName=IP:127.0.0.1']
    execFileSync(
      'openssl',
      ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', ...subject, '-out', cert, '-keyout', key],
      { stdio: 'ignore' },
    )
  }
  certify('first')
  const { child, address, said, stop } = await serve(['--port', '0'], { DMS_TLS_CERT: cert, DMS_TLS_KEY: key })
  const servedFor = async (ca: string) => {
    const agent = new Agent({ connect: { ca } })
    return healthOf(address, agent)
      .catch((error: { code?: string }) => error.code)
      .finally(() => agent.close())
  }
  expect(await servedFor(await readFile(cert, 'utf8'))).toBe(200)
  certify('second')
  const second = await readFile(cert, 'utf8')
  expect(await servedFor(second)).toBe('DEPTH_ZERO_SELF_SIGNED_CERT')
  child.kill('SIGHUP')
  while ((await servedFor(second)) !== 200) await new Promise((resolve) => setTimeout(resolve, 20))
  await writeFile(cert, 'not a certificate')
  child.kill('SIGHUP')
  await until(() => said.some((line) => line.includes('cannot load the certificate')), 20_000)
  expect(await servedFor(second)).toBe(200)
  expect(await stop()).toBe(0)
})

test('lines in the journal begin with their priority', async () => {
  const folder = await folderOf()
  const journal = await open(join(folder, 'journal'), 'w+')
  onTestFinished(() => journal.close())
  const { dev, ino } = await journal.stat()
  const said = async (args: readonly string[], env: Record<string, string>) => {
    const child = spawn(process.execPath, [executable, ...args], {
      env: bareEnvironment({ JOURNAL_STREAM: `${dev}:${ino}`, DMS_DATA_DIR: folder, ...env }),
      stdio: ['ignore', 'ignore', journal.fd],
    })
    await once(child, 'exit')
    const text = await readFile(join(folder, 'journal'), 'utf8')
    await journal.truncate()
    return text.replaceAll('\0', '')
  }
  const { databaseUrl, dataDir } = await startApp()
  const words = ['worker', '--once', '--queues', 'maintenance', '--data-dir', dataDir]
  expect(await said(words, { DATABASE_URL: databaseUrl })).toMatch(/^<6>\{"level":"info".*\n/)
  expect(await said(['config', 'show', 'nonsense'], {})).toMatch(/^<3>error: /)
  expect(await said(['config', 'show', 'nonsense'], { JOURNAL_STREAM: '1:2' })).toMatch(/^error: /)
})
