/**
 * Real WebDAV servers, one process each, on folders of their own. The programs are in Debian: apache2, nginx with libnginx-mod-http-dav-ext, rclone.
 */
import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, chown, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { findProgram } from '../../../src/config/find-program.ts'
import { bareEnvironment } from '../processes/run.ts'
import { freePort } from './free-port.ts'

export interface WebdavServer {
  /** of the folder; ends with `/` */
  readonly url: string
  /** the folder on this machine */
  readonly folder: string
  readonly username: string
  readonly password: string
  /** authority of its certificate; '' without one */
  readonly caFile: string
  /** "METHOD path status" of each request so far, if the server has a log */
  requests(): Promise<string[]>
  stop(): Promise<void>
}

export interface WebdavOptions {
  /** how Apache requests the password; default basic */
  readonly auth?: 'basic' | 'digest'
  /** Apache with a certificate of its own authority */
  readonly tls?: boolean
  /** Apache answers Depth: infinity */
  readonly infinity?: boolean
}

const username = 'ann'
/** With characters that must be quoted in headers. */
const password = 'pass "w\\rd" ü'
const realm = 'files'
const run = promisify(execFile)
/** nginx and Apache are in folders that not every PATH has. */
const programOf = (name: string) => findProgram(name) ?? [`/usr/sbin/${name}`].find((path) => existsSync(path)) ?? null
const nginxModule = '/usr/lib/nginx/modules/ngx_http_dav_ext_module.so'
const apacheModules = '/usr/lib/apache2/modules'

const programs = {
  apache: () => (existsSync(join(apacheModules, 'mod_dav_fs.so')) ? programOf('apache2') : null),
  nginx: () => (existsSync(nginxModule) ? programOf('nginx') : null),
  rclone: () => programOf('rclone'),
}
export type WebdavServerName = keyof typeof programs

/** Returns whether the server can be started here; prints a note otherwise. */
export function hasWebdavServer(name: WebdavServerName): boolean {
  const isThere = programs[name]() !== null
  if (!isThere) process.stderr.write(`skipped: no ${name} with WebDAV on this machine\n`)
  return isThere
}

/** Starts it on a free port; the caller stops it. Throws with its output if it does not start. */
export async function startWebdav(name: WebdavServerName, options: WebdavOptions = {}): Promise<WebdavServer> {
  const home = await mkdtemp(join(tmpdir(), `dms-${name}-`))
  const folder = join(home, 'www', 'dav')
  await mkdir(folder, { recursive: true })
  await chmod(home, 0o755)
  for (let attempt = 1; ; attempt++) {
    const port = await freePort()
    const { program, args, env, scheme = 'http', caFile = '' } = await starts[name](home, port, options)
    const child = spawn(program, args, { env: bareEnvironment(env), stdio: ['ignore', 'ignore', 'pipe'] })
    const exit = once(child, 'exit')
    try {
      await answering(child, port)
    } catch (error) {
      child.kill('SIGKILL')
      await exit
      // Somebody else may have taken the port in between.
      if (attempt < 3) continue
      await rm(home, { recursive: true, force: true })
      throw error
    }
    return {
      url: `${scheme}://localhost:${port}/dav/`,
      folder,
      username,
      password,
      caFile,
      requests: async () => {
        const lines = (await readFile(join(home, 'access.log'), 'utf8').catch(() => '')).split('\n')
        return lines.filter((line) => line !== '')
      },
      stop: async () => {
        child.kill('SIGTERM')
        const killTimer = setTimeout(() => child.kill('SIGKILL'), 3000)
        await exit
        clearTimeout(killTimer)
        await rm(home, { recursive: true, force: true, maxRetries: 3 })
      },
    }
  }
}

/** Gives the files below a folder to the account of the server, so that it can change them. */
export async function handOver(folder: string): Promise<void> {
  const [uid, gid] = isRoot ? await account() : [0, 0]
  for (const path of ['', ...(await readdir(folder, { recursive: true }))]) if (isRoot) await chown(join(folder, path), uid, gid)
}

interface Start {
  readonly program: string
  readonly args: string[]
  readonly env?: Record<string, string>
  readonly scheme?: 'https'
  readonly caFile?: string
}

const isRoot = process.getuid?.() === 0

const starts: Record<WebdavServerName, (home: string, port: number, options: WebdavOptions) => Promise<Start>> = {
  async apache(home, port, { auth = 'basic', tls = false, infinity = false }) {
    const hash = createHash('sha1').update(password).digest('base64')
    await writeFile(join(home, 'basic'), `${username}:{SHA}${hash}\n`)
    await writeFile(
      join(home, 'digest'),
      `${username}:${realm}:${createHash('md5').update(`${username}:${realm}:${password}`).digest('hex')}\n`,
    )
    const modules = [
      'mpm_event',
      'authn_core',
      'authn_file',
      'authz_core',
      'authz_user',
      'auth_basic',
      'auth_digest',
      'mime',
      'dav',
      'dav_fs',
    ]
    if (tls) modules.push('ssl')
    const caFile = tls ? await makeCertificate(home) : ''
    await mkdir(join(home, 'locks'), { recursive: true })
    await handOver(join(home, 'locks'))
    await handOver(join(home, 'www'))
    const lines = [
      `ServerRoot ${home}`,
      'ServerName localhost',
      `Listen 127.0.0.1:${port}`,
      `PidFile ${home}/apache.pid`,
      ...modules.map((name) => `LoadModule ${name}_module ${apacheModules}/mod_${name}.so`),
      ...(isRoot ? ['User www-data', 'Group www-data'] : []),
      'StartServers 1',
      'ThreadsPerChild 25',
      `ErrorLog ${home}/error.log`,
      'LogFormat "%m %U %>s" plain',
      `CustomLog ${home}/access.log plain`,
      `TypesConfig /etc/mime.types`,
      `DocumentRoot ${home}/www`,
      `DAVLockDB ${home}/locks/db`,
      ...(tls ? ['SSLEngine on', `SSLCertificateFile ${home}/cert.pem`, `SSLCertificateKeyFile ${home}/key.pem`] : []),
      `<Directory ${home}/www/dav>`,
      'DAV On',
      ...(infinity ? ['DavDepthInfinity On'] : []),
      auth === 'basic' ? 'AuthType Basic' : 'AuthType Digest',
      `AuthName ${realm}`,
      `AuthUserFile ${home}/${auth}`,
      'Require valid-user',
      '</Directory>',
    ]
    await writeFile(join(home, 'apache.conf'), `${lines.join('\n')}\n`)
    const args = ['-f', join(home, 'apache.conf'), '-DFOREGROUND']
    return { program: programs.apache() ?? '', args, ...(tls ? { scheme: 'https' as const, caFile } : {}) }
  },

  async nginx(home, port) {
    await writeFile(join(home, 'basic'), `${username}:{PLAIN}${password}\n`)
    const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((kind) => `${kind}_temp_path ${home}/${kind};`)
    const lines = [
      `load_module ${nginxModule};`,
      'daemon off;',
      // One process that stays who it is: root may otherwise not read folders of its own.
      'master_process off;',
      `pid ${home}/nginx.pid;`,
      `error_log ${home}/error.log;`,
      'events {}',
      'http {',
      ...temporary,
      "log_format plain '$request_method $uri $status';",
      `access_log ${home}/access.log plain;`,
      'types { text/plain txt; text/html html; }',
      'default_type application/octet-stream;',
      'client_max_body_size 0;',
      'server {',
      `listen 127.0.0.1:${port};`,
      `root ${home}/www;`,
      'location /dav/ {',
      'dav_methods PUT DELETE MKCOL COPY MOVE;',
      'dav_ext_methods PROPFIND OPTIONS;',
      'create_full_put_path on;',
      `auth_basic ${realm};`,
      `auth_basic_user_file ${home}/basic;`,
      '} } }',
    ]
    await writeFile(join(home, 'nginx.conf'), `${lines.join('\n')}\n`)
    return { program: programs.nginx() ?? '', args: ['-p', home, '-e', join(home, 'error.log'), '-c', join(home, 'nginx.conf')] }
  },

  async rclone(home, port) {
    const args = ['serve', 'webdav', join(home, 'www', 'dav'), '--addr', `127.0.0.1:${port}`, '--baseurl', 'dav', '--dir-cache-time', '0s']
    return {
      program: programs.rclone() ?? '',
      args: [...args, '--config', '/dev/null', '--log-file', join(home, 'error.log')],
      env: { RCLONE_USER: username, RCLONE_PASS: password, RCLONE_CACHE_DIR: join(home, 'cache') },
    }
  },
}

/** Makes `cert.pem` and `key.pem` for localhost, signed by an authority of its own. Returns the path of its certificate. */
export async function makeCertificate(home: string): Promise<string> {
  const openssl = (args: string) => run('openssl', args.split(' '), { cwd: home })
  const key = '-newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc'
  await openssl(`req -x509 ${key} -keyout ca-key.pem -out ca.pem -days 2 -subj /CN=Test-CA`)
  await openssl(`req -new ${key} -keyout key.pem -out request.pem -subj /CN=localhost`)
  await writeFile(join(home, 'names'), 'subjectAltName=DNS:localhost,IP:127.0.0.1\n')
  await openssl('x509 -req -in request.pem -CA ca.pem -CAkey ca-key.pem -CAcreateserial -out cert.pem -days 2 -extfile names')
  return join(home, 'ca.pem')
}

async function account(): Promise<[uid: number, gid: number]> {
  const [uid, gid] = ['-u', '-g'].map((flag) => Number(execFileSync('id', [flag, 'www-data'])))
  return [uid ?? 0, gid ?? 0]
}

async function answering(child: ChildProcess, port: number): Promise<void> {
  let said = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    said += text
  })
  for (let waited = 0; waited < 60_000; waited += 20) {
    if (child.exitCode !== null) throw new Error(`${child.spawnfile} ended at once: ${said}`)
    const isThere = await fetch(`http://127.0.0.1:${port}/`).then(
      (response) => response.body?.cancel().then(() => true) ?? true,
      (error) => (error.cause as NodeJS.ErrnoException | undefined)?.code !== 'ECONNREFUSED',
    )
    if (isThere) return
    await sleep(20)
  }
  throw new Error(`${child.spawnfile} does not answer: ${said}`)
}
