/** Checks the configuration, files and this machine. */
import { chmod, stat, statfs } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { openIdentityProvider } from '../auth/openid-provider.ts'
import { findExposure, isLoopback } from '../config/exposure.ts'
import { parseHostPort } from '../config/values.ts'
import { hasCluster } from '../db/embedded/cluster.ts'
import { listClusters } from '../db/embedded/upgrade/clusters.ts'
import { nodeKeepsFromNetwork, withoutNetwork } from '../extract/process/sandbox.ts'
import { storeFolder } from '../files/store-marker.ts'
import { dms } from '../log/fix.ts'
import { readVersion } from '../version.ts'
import { checkAccess } from './access.ts'
import { type Check, type CheckResult, fail, ok, SkippedCheck, warn } from './doctor.ts'
import type { LazyInstallation } from './installation.ts'
import { checkMemory } from './memory.ts'

/** Files in the data directory that only dms may read. */
const secretNames = ['jwt_secret', 'sources_key', 'initial-admin-password']
/** Free space below which the check warns, in bytes. */
const minFreeBytes = 2e9

export const machineChecks = (installation: LazyInstallation): Check[] => [
  { id: 'config', about: 'configuration file and environment variables', run: () => checkConfig(installation) },
  { id: 'permissions', about: 'file modes of secrets', run: () => checkPermissions(installation) },
  { id: 'access', about: 'files that the server cannot read or write', run: () => checkAccess(installation.loaded.config) },
  { id: 'node', about: 'version of Node', run: () => ok(`dms ${readVersion()} on Node ${process.versions.node}`) },
  { id: 'disk', about: 'free disk space', run: () => checkDisk(installation) },
  { id: 'clusters', about: 'kept and unfinished clusters of PostgreSQL', run: () => checkClusters(installation) },
  { id: 'memory', about: 'settings that need more memory than there is', run: () => checkMemory(installation) },
  { id: 'exposure', about: 'access from the network', run: () => checkExposure(installation) },
  { id: 'readers', about: 'sandbox of the parsers of uploaded files', run: checkReaders },
  { id: 'oidc', about: 'OpenID provider', run: () => checkOidc(installation) },
]

function checkConfig({ loaded: { problems, warnings, file } }: LazyInstallation): CheckResult {
  const more = problems.length > 1 ? ` (and ${problems.length - 1} more)` : ''
  if (problems[0] !== undefined) return fail(`${problems[0]}${more}`, dms`config check`)
  if (warnings[0] !== undefined) return warn(warnings[0], dms`config check`)
  return ok(file ?? 'no configuration file: defaults and environment variables')
}

async function checkPermissions({ loaded: { config, origins } }: LazyInstallation): Promise<CheckResult> {
  const envFiles = [...origins.values()].filter(({ origin }) => origin === 'env_file').map(({ source }) => source.replace(/^\w+=/, ''))
  const readable: string[] = []
  for (const path of [...secretNames.map((name) => join(config.data_dir, name)), ...envFiles]) {
    const stats = await stat(path).catch(() => null)
    if (stats && (stats.mode & 0o007) !== 0) readable.push(path)
  }
  if (readable.length === 0) return ok('only dms can read its secrets')
  const restrict = async () => {
    for (const path of readable) await chmod(path, 0o600)
    return `set mode 600 on ${readable.join(', ')}`
  }
  return fail(`every user of this machine can read ${readable.join(', ')}`, `chmod 600 ${readable.join(' ')}`, restrict)
}

async function checkClusters({ loaded: { config } }: LazyInstallation): Promise<CheckResult> {
  if (config.database.url !== '') throw new SkippedCheck('the database is external')
  if (!(await hasCluster(config.data_dir))) throw new SkippedCheck('there is no database')
  const [current, ...others] = await listClusters(config.data_dir)
  if (others.length === 0) return ok(`PostgreSQL ${current?.version}, nothing kept`)
  const listed = others.map(({ folder, bytes }) => `${folder} (${Math.ceil(bytes / 1e6)} MB)`).join(', ')
  return warn(`left by an upgrade of the database: ${listed}`, dms`database upgrade --forget`)
}

async function checkDisk({ loaded: { config } }: LazyInstallation): Promise<CheckResult> {
  const directories = {
    'the data directory': config.data_dir,
    'the document store': config.storage.kind === 'disk' ? storeFolder(config) : config.data_dir,
    'the backups': config.backup.path,
  }
  const lines: string[] = []
  for (const [label, path] of Object.entries(directories)) {
    const { bavail, bsize, ffree, files } = await statfs(await findExistingParent(path))
    const free = bavail * bsize
    if (label === 'the document store' && free < config.storage.min_free)
      return fail(
        `${formatGigabytes(free)} are free for ${label}; uploads are refused below ${formatGigabytes(config.storage.min_free)}`,
        'free disk space, or lower storage.min_free',
      )
    if (free < minFreeBytes) return warn(`${formatGigabytes(free)} are free for ${label}`, 'free disk space')
    if (files > 0 && ffree / files < 0.02) return warn(`less than 2% of the inodes are free for ${label}`, 'remove files')
    lines.push(`${formatGigabytes(free)} free for ${label}`)
  }
  return ok(lines.join(', '))
}

const formatGigabytes = (bytes: number): string => `${(bytes / 1e9).toFixed(bytes < 1e10 ? 1 : 0)} GB`

/** Returns the directory itself, or its nearest parent that exists. */
export async function findExistingParent(path: string): Promise<string> {
  for (let folder = path; ; folder = dirname(folder))
    if ((await stat(folder).catch(() => null)) !== null || folder === dirname(folder)) return folder
}

function checkExposure({ loaded: { config } }: LazyInstallation): CheckResult {
  const { server, metrics } = config
  if (metrics.enabled && metrics.token === '' && !isLoopback(parseHostPort(metrics.listen)?.host ?? ''))
    return fail(`anyone who reaches ${metrics.listen} can read the metrics`, 'set metrics.token, or listen on 127.0.0.1')
  if (server.metrics_allow.some((network) => /\/0$/.test(network)))
    return fail('server.metrics_allow lets any address read /metrics', 'list only the networks of the monitoring')
  const [finding, ...others] = findExposure(config)
  const more = others.length > 0 ? ` (and ${others.length} more)` : ''
  if (finding) return warn(`${finding.message}${more}`, more ? dms`config check` : finding.fix)
  return ok(server.socket === '' && !isLoopback(server.host) ? `${server.host}:${server.port}` : 'this machine only')
}

async function checkOidc({ loaded: { config }, log }: LazyInstallation): Promise<CheckResult> {
  if (config.auth.method !== 'oidc') throw new SkippedCheck('users sign in with passwords')
  const failed = Object.entries(await openIdentityProvider(config.oidc, log).check()).find(([, result]) => result !== 'ok')
  return failed
    ? fail(`${failed[0]}: ${failed[1]}`, 'check [oidc], issuer first, and the connection to the provider')
    : ok(config.oidc.issuer)
}

/** Checks that reader processes have no network, because a malicious file may take over its parser. */
function checkReaders(): CheckResult {
  if (withoutNetwork() !== null) return ok('parsers have no network')
  const fix = 'allow dms to create network namespaces (unshare --net), or block the network with a firewall'
  if (!nodeKeepsFromNetwork)
    return warn(`parsers can reach the network: Node ${process.versions.node} cannot prevent it`, `install Node 26, and ${fix}`)
  return warn('Node blocks the network for parsers, but not for their native code', fix)
}
