/** A machine as in README and docs/: a server, its sources, its folders, with stand-ins for other hosts and for folders of root. */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, mkdtemp, readFile, rm, symlink, truncate, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import sharp from 'sharp'
import { textPdf } from '../data/page-image.ts'
import type { DocsLine } from '../processes/docs-lines.ts'
import { bareEnvironment, executable } from '../processes/run.ts'
import { hasS3Server, startS3 } from './s3-server.ts'
import { handOver, hasWebdavServer, startWebdav } from './webdav-servers.ts'

export interface Done {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

export interface DocsMachine {
  /** paths of requests to the monitor of the crontabs */
  readonly reports: readonly string[]
  /** Runs lines in one bash, in the folder of the files. */
  run(lines: readonly string[], variables?: Record<string, string>): Promise<Done>
  /** Runs a line as cron does: with few variables, in the shell of the crontab. */
  runInCron(line: DocsLine): Promise<Done>
  stop(): Promise<void>
}

type StandIn = readonly [from: string | RegExp, to: string]
interface Parts {
  readonly standIns: readonly StandIn[]
  readonly stop: () => Promise<unknown>
}

const root = fileURLToPath(new URL('../../..', import.meta.url))
const password = 'correct horse battery 7'

const servers = { webdav: hasWebdavServer('rclone'), s3: hasS3Server() }
/** Returns whether the line needs a server that this machine lacks. */
export const isWithoutServer = (text: string): boolean =>
  (!servers.webdav && /sources .*\binvoices\b/.test(text)) || (!servers.s3 && text.includes('amazonaws'))

/** Starts the server with `serve`, a line of shell. */
export async function startDocsMachine(serve: string): Promise<DocsMachine> {
  const folder = await mkdtemp(join(tmpdir(), 'dms-docs-'))
  // The database runs as another user when we are root.
  await chmod(folder, 0o711)
  await writeFiles(folder)
  const sources = await Promise.all([...(servers.webdav ? [startCloud(folder)] : []), ...(servers.s3 ? [startBucket(folder)] : [])])
  const monitor = await startMonitor()
  const bare = bareEnvironment({ DMS_DATA_DIR: join(folder, 'var/lib/dms'), HOME: join(folder, 'home'), UUID: 'a-uuid' })
  const env: Record<string, string> = { ...bare, PATH: `${join(folder, 'bin')}:${bare.PATH}`, KEY: 'a-key' }
  const { host, stop } = await startDms(serve, env)
  env.DMS_SERVER_PORT = host.slice(host.indexOf(':') + 1)
  const adminPassword = await readFile(join(folder, 'var/lib/dms/initial-admin-password'), 'utf8')
  const standIns: StandIn[] = [
    ['jgKEAb6M-SmPN9LTg6Apw.T9', adminPassword.trim()],
    ...[monitor, ...sources].flatMap((parts) => parts.standIns),
    ['https://dms.example.org', `http://${host}`],
    ['localhost:8080', host],
    ['/usr/local/bin', join(folder, 'bin')],
    [/(?<![\w/.-])\/(srv|mnt|etc|var|root|run|usr\/local|usr\/bin\/dms)(?![\w.-])/g, `${folder}/$1`],
  ]
  const replaced = (text: string): string => standIns.reduce((line, [from, to]) => line.replaceAll(from, to), text)
  const cwd = join(folder, 'work')
  const run: DocsMachine['run'] = (lines, variables = {}) =>
    execute('bash', ['--norc', '-euo', 'pipefail', '-c', replaced(lines.join('\n'))], {
      cwd,
      env: { ...env, ...Object.fromEntries(Object.entries(variables).map(([name, value]) => [name, replaced(value)])) },
    })
  const ready = await run([
    'for label in inbox telecom q4; do dms labels create $label -q; done',
    `printf 'username,email,password\\nsvc-import,svc@example.org,${password}\\n' | dms users import - --format csv -q`,
    'dms users token svc-import > /run/secrets/dms',
    'dms login https://dms.example.org --name prod --username svc-import --password-file /etc/dms/svc.pw --save-password-source -q',
    'dms context use local -q',
    'dms documents upload broken.pdf -q',
    'dms backup create --to dms-20261120T031500Z.tar -q',
  ])
  if (ready.code !== 0) throw new Error(ready.stderr)
  return {
    reports: monitor.reports,
    run,
    runInCron({ text, variables }) {
      const { DMS_DATA_DIR = '', HOME = '', UUID = '' } = env
      const { PATH = '/usr/local/bin:/usr/bin:/bin', SHELL = '/bin/sh', ...others } = variables
      return execute(SHELL, ['-c', replaced(text)], { cwd, env: { ...others, PATH: replaced(PATH), DMS_DATA_DIR, HOME, UUID } })
    },
    async stop() {
      await stop()
      for (const parts of [monitor, ...sources]) await parts.stop()
      await rm(folder, { recursive: true, force: true, maxRetries: 3 })
    },
  }
}

/** Writes the files that the lines name, and programs that replace those of other hosts. */
async function writeFiles(folder: string): Promise<void> {
  const write = async (name: string, content: string | Uint8Array, mode = 0o644): Promise<void> => {
    await mkdir(dirname(join(folder, name)), { recursive: true })
    await writeFile(join(folder, name), content, { mode })
  }
  for (const name of ['home', 'etc/systemd/system', 'usr/bin', 'run/secrets', 'mnt/nas', 'mnt/usb', 'var/lib', 'lib'])
    await mkdir(join(folder, name), { recursive: true })
  await symlink(root, join(folder, 'lib/dms'))
  const programs = {
    dms: `exec '${process.execPath}' '${executable}' "$@"`,
    npx: 'exec "$@"',
    sudo: 'exec "$@"',
    npm: `[ "$*" = 'root -g' ] && echo '${join(folder, 'lib')}'`,
    ssh: 'shift; exec sh -c "$*"',
    age: 'exec cat',
  }
  for (const [name, line] of Object.entries(programs)) await write(`bin/${name}`, `#!/bin/sh\n${line}\n`, 0o755)
  for (const name of ['work/letter', 'work/scan', 'work/contract', 'root/report'])
    await write(`${name}.pdf`, textPdf([['Harbour fees for 2026', `Annual report, ${name}`]]))
  const white = { width: 400, height: 300, channels: 3, background: '#ffffff' } as const
  await write('work/scan.png', await sharp({ create: white }).png().toBuffer())
  await write('work/notes.txt', 'Call Ms Lind')
  await write('work/broken.pdf', '%PDF-1.4 broken')
  await write('work/in/letter.txt', 'telecom invoice')
  await write('srv/scans/invoice.txt', 'invoice of the telecom')
  await write('srv/hr/staff.csv', 'username,email\nbert,bert@example.org\n')
  await write('etc/dms/svc.pw', password)
  // Larger than limits.max_upload_size.
  await write('work/huge.tif', '')
  await truncate(join(folder, 'work/huge.tif'), 6e11)
}

async function startCloud(folder: string): Promise<Parts> {
  const webdav = await startWebdav('rclone')
  await writeFile(join(webdav.folder, 'invoice.txt'), 'an invoice from the cloud')
  await handOver(webdav.folder)
  await writeFile(join(folder, 'work/ana.pw'), webdav.password)
  return {
    standIns: [
      ['https://cloud.example.org/remote.php/dav/files/ana/in/', webdav.url],
      [' ana ', ` ${webdav.username} `],
    ],
    stop: webdav.stop,
  }
}

async function startBucket(folder: string): Promise<Parts> {
  const s3 = await startS3()
  await s3.send('PUT', 'bucket')
  await s3.send('PUT', 'bucket/prefix/scan.txt', { body: 'a scan from the bucket' })
  await writeFile(join(folder, 'work/key.secret'), s3.password)
  return {
    standIns: [
      ['https://s3.eu-west-1.amazonaws.com/', s3.url],
      ['AKIA…', s3.username],
    ],
    stop: s3.stop,
  }
}

async function startMonitor(): Promise<Parts & { reports: string[] }> {
  const reports: string[] = []
  const server = createServer(({ url = '' }, response) => {
    reports.push(url)
    response.end()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { reports, standIns: [['https://hc-ping.com', url]], stop: async () => server.close() }
}

async function startDms(line: string, env: Record<string, string>): Promise<{ host: string; stop: () => Promise<void> }> {
  const server = spawn('bash', ['-c', `exec ${line}`], {
    env: { ...env, DMS_SERVER_PORT: '0', DMS_WORKER_CONCURRENCY: '1', DMS_WORKER_SCHEDULE_SOURCES: 'false' },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const exit = once(server, 'exit')
  let said = ''
  for await (const chunk of server.stderr.iterator({ destroyOnReturn: false })) {
    said += chunk
    if (said.includes('listening on')) break
  }
  server.stderr.resume()
  const [, host] = /listening on http:\/\/(\S+) \(schema \d{4}, search postgres, ocr /.exec(said) ?? []
  if (!host) throw new Error(said)
  return {
    host,
    stop: async () => {
      server.kill()
      await exit
    },
  }
}

function execute(program: string, args: string[], { cwd, env }: { cwd: string; env: Record<string, string> }): Promise<Done> {
  return new Promise((resolve) => {
    const child = execFile(program, args, { cwd, env, timeout: 120_000 }, (error, stdout, stderr) => {
      resolve({ code: typeof error?.code === 'number' ? error.code : error ? -1 : 0, stdout, stderr })
    })
    child.stdin?.end()
  })
}
