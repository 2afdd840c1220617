/** Configuration, files and this machine. */
import { chmod, mkdir, readFile, stat, statfs } from 'node:fs/promises'
import { isIP } from 'node:net'
import { dirname, join } from 'node:path'
import { openIdentityProvider } from '../auth/openid-provider.ts'
import { parseHostPort } from '../config/values.ts'
import { nodeKeepsFromNetwork, withoutNetwork } from '../extract/process/sandbox.ts'
import { storeFolder } from '../files/store-marker.ts'
import { readVersion } from '../version.ts'
import { fail, NotHere, type Opinion, ok, type Question, warn } from './doctor.ts'
import type { Patient } from './installation.ts'

/** What nobody but dms may read, below the data folder. */
const secrets = ['jwt_secret', 'sources_key', 'initial-admin-password']

export const machine = (patient: Patient): Question[] => [
  { id: 'config', about: 'config.toml and the variables', ask: async () => configuration(patient) },
  { id: 'permissions', about: 'who may read secrets', ask: () => permissions(patient) },
  { id: 'node', about: 'the Node that runs this', ask: async () => ok(`dms ${readVersion()} on Node ${process.versions.node}`) },
  { id: 'disk', about: 'room on the disks', ask: () => disk(patient) },
  { id: 'exposure', about: 'what strangers can reach', ask: async () => exposure(patient) },
  { id: 'readers', about: 'what parsers of uploaded files can reach', ask: readers },
  { id: 'oidc', about: 'the OpenID provider', ask: () => oidc(patient) },
]

function configuration({ loaded: { problems, warnings, file } }: Patient): Opinion {
  const more = problems.length > 1 ? ` (and ${problems.length - 1} more)` : ''
  if (problems[0] !== undefined) return fail(`${problems[0]}${more}`, 'dms config check')
  if (warnings[0] !== undefined) return warn(warnings[0], 'dms config check')
  return ok(file ?? 'no configuration file: the defaults and variables')
}

async function permissions({ loaded: { config, origins } }: Patient): Promise<Opinion> {
  const named = [...origins.values()].filter(({ origin }) => origin === 'env_file').map(({ source }) => source.replace(/^\w+=/, ''))
  const open: string[] = []
  for (const path of [...secrets.map((name) => join(config.data_dir, name)), ...named]) {
    const found = await stat(path).catch(() => null)
    if (found && (found.mode & 0o007) !== 0) open.push(path)
  }
  if (open.length === 0) return ok('secrets are for dms alone')
  const close = async () => {
    for (const path of open) await chmod(path, 0o600)
    return `closed ${open.join(', ')}`
  }
  return fail(`everybody may read ${open.join(', ')}`, `chmod 600 ${open.join(' ')}`, close)
}

async function disk({ loaded: { config } }: Patient): Promise<Opinion> {
  const places = {
    'the data folder': config.data_dir,
    'the document store': config.storage.kind === 'disk' ? storeFolder(config) : config.data_dir,
    'the backups': config.backup.path,
  }
  const lines: string[] = []
  for (const [what, path] of Object.entries(places)) {
    const { bavail, bsize, ffree, files } = await statfs(await nearest(path))
    const free = bavail * bsize
    if (what === 'the document store' && free < config.storage.min_free)
      return fail(
        `${gigabytes(free)} are left for ${what}; below ${gigabytes(config.storage.min_free)} uploads are refused`,
        'make room, or lower storage.min_free',
      )
    if (free < 2e9) return warn(`${gigabytes(free)} are left for ${what}`, 'make room')
    if (files > 0 && ffree / files < 0.02) return warn(`hardly any more files can be made for ${what} (inodes)`, 'make room')
    lines.push(`${gigabytes(free)} for ${what}`)
  }
  return ok(lines.join(', '))
}

/** The folder itself, or the first of those above it that there is. */
async function nearest(path: string): Promise<string> {
  for (let folder = path; ; folder = dirname(folder))
    if ((await stat(folder).catch(() => null)) !== null || folder === dirname(folder)) return folder
}

function exposure({ loaded: { config } }: Patient): Opinion {
  const { server, auth, metrics } = config
  const isOpen = server.socket === '' && !isLoopback(server.host)
  if (metrics.enabled && metrics.token === '' && !isLoopback(parseHostPort(metrics.listen)?.host ?? ''))
    return fail(`everybody who reaches ${metrics.listen} reads the metrics`, 'set metrics.token, or listen on 127.0.0.1')
  if (server.metrics_allow.some((network) => /\/0$/.test(network)))
    return fail('server.metrics_allow lets the whole world read /metrics', 'name the networks of your monitoring')
  if (isOpen && auth.enable_registration)
    return warn(`anybody who reaches ${server.host}:${server.port} can register`, 'ENABLE_REGISTRATION=false, or auth.enable_registration')
  if (isOpen && server.tls_cert === '' && server.trusted_proxies.length === 0)
    return warn(
      `passwords travel in the clear to ${server.host}:${server.port}`,
      'set server.tls_cert and server.tls_key, or listen on 127.0.0.1 behind a proxy',
    )
  return ok(isOpen ? `${server.host}:${server.port}` : 'this machine only')
}

const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '[::1]' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))

async function oidc({ loaded: { config }, log }: Patient): Promise<Opinion> {
  if (config.auth.method !== 'oidc') throw new NotHere('people sign in by password')
  const wrong = Object.entries(await openIdentityProvider(config.oidc, log).check()).find(([, found]) => found !== 'ok')
  return wrong ? fail(`${wrong[0]}: ${wrong[1]}`, 'look at [oidc], issuer first, and at the way to the provider') : ok(config.oidc.issuer)
}

/** Parsers are given files of strangers; what holds them if one of those takes a parser over. */
async function readers(): Promise<Opinion> {
  if (withoutNetwork() !== null) return ok('parsers have no network')
  const mend = 'let dms make network namespaces (unshare --net), or let a firewall keep it from the network'
  if (!nodeKeepsFromNetwork)
    return warn(`nothing but their code keeps parsers from the network (Node ${process.versions.node})`, `Node 26, and ${mend}`)
  return warn('Node keeps parsers from the network; code of theirs that is not JavaScript is not kept by the system', mend)
}

export const gigabytes = (bytes: number): string => `${(bytes / 1e9).toFixed(bytes < 1e10 ? 1 : 0)} GB`

/** What the files of the configured folder are, for those that are missing. */
export async function missingFolder(path: string): Promise<Opinion | null> {
  if ((await stat(path).catch(() => null)) !== null) return null
  const make = async () => {
    await mkdir(path, { recursive: true, mode: 0o700 })
    return `made ${path}`
  }
  return warn(`${path} does not exist`, `mkdir -p ${path}`, make)
}

/** The first line of a file; '' where there is none. */
export const lineOf = async (path: string): Promise<string> => (await readFile(path, 'utf8').catch(() => '')).trim()
