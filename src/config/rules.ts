/** Rules for settings beyond their type. */
import { accessSync, closeSync, constants, openSync } from 'node:fs'
import { dirname, relative, sep } from 'node:path'
import { readCertificates, readKeyPair } from '../certificates.ts'
import { type ConfigError, formatFileError } from '../errors.ts'
import type { Config } from './schema.ts'

/** Matches secrets copied from manuals and secrets that repeat one part. */
const guessablePattern =
  /change[-_ ]?(me|this|it)|(your|my|a)[-_ ](string-|256-bit-|jwt[-_ ]|super[-_ ])?secret|super[-_ ]?secret|secret[-_ ]?key|insecure|example|0123456789abcdef|^(?<piece>.{1,8}?)\k<piece>+.{0,7}$/i

/** Returns problems that prevent a start. `name` returns a setting with the line, variable or flag that set it. */
export function findProblems(config: Config, name: (key: string) => string): string[] {
  const { auth, oidc, server, storage, search, limits, data_dir, backup } = config
  const problems: string[] = []
  const require = (key: string, ...missing: string[]): void => {
    if (missing.length > 0) problems.push(`${name(key)} needs ${missing.join(' and ')}`)
  }

  problems.push(...secretProblems(auth.jwt_secret).map((problem) => `${name('auth.jwt_secret')}: ${problem}`))
  if (auth.method === 'oidc') {
    require('auth.method', ...requiredByAuthMethod[oidc.token_endpoint_auth_method]
      .filter((key) => oidc[key] === '')
      .map((key) => `oidc.${key}`))
    problems.push(...oidcProblems(oidc, name))
  }
  if (auth.require_email_verification && config.smtp.url === '') require('auth.require_email_verification', 'smtp.url')
  if (config.smtp.url !== '' && config.smtp.from === '') require('smtp.url', 'smtp.from')
  if (storage.kind === 's3' && storage.s3_bucket === '') require('storage.kind', 'storage.s3_bucket')
  const isInstance = storage.s3_credentials === 'instance'
  if (isInstance && storage.s3_access_key_id !== '')
    problems.push(`${name('storage.s3_access_key_id')}: must be empty with storage.s3_credentials = "instance"`)
  for (const [key, needed] of isInstance ? [] : requiredByS3Settings)
    if (!['', 'none'].includes(storage[key]) && storage[needed] === '') require(`storage.${key}`, `storage.${needed}`)
  if (storage.s3_sse_kms_key_id !== '' && storage.s3_sse !== 'aws:kms') require('storage.s3_sse_kms_key_id', 'storage.s3_sse = "aws:kms"')
  if (search.engine === 'opensearch' && search.opensearch_urls.length === 0) require('search.engine', 'search.opensearch_urls')
  if (search.engine !== 'opensearch' && !search.keep_embedded)
    problems.push(`${name('search.keep_embedded')}: only OpenSearch works without the embedded index`)
  if (config.metrics.enabled && config.metrics.listen === '') require('metrics.enabled', 'metrics.listen')
  if (server.tls_cert !== '' && server.tls_key === '') require('server.tls_cert', 'server.tls_key')
  if (server.tls_key !== '' && server.tls_cert === '') require('server.tls_key', 'server.tls_cert')
  if (config.backup.key_file !== '' && isBelow(config.backup.path, config.backup.key_file))
    problems.push(`${name('backup.key_file')}: must not be in backup.path, where whoever changes a backup could sign it`)
  // The recursive mkdir of Node never ends there. Folders in data_dir are not named beside it.
  const folders = Object.entries({ 'storage.path': storage.path, 'storage.tmp_path': storage.tmp_path, 'backup.path': backup.path })
  for (const [key, path] of [['data_dir', data_dir] as const, ...folders.filter(([, path]) => !isBelow(data_dir, path))])
    if (isBelow('/proc', path)) problems.push(`${name(key)}: ${path} is in /proc, where no folder can be created`)
  if (limits.per_page_default > limits.per_page_max)
    problems.push(`${name('limits.per_page_default')}: ${limits.per_page_default} is more than limits.per_page_max`)
  return problems
}

/** Returns problems with the files that settings name. */
export function findFileProblems(
  { server, database, storage, search, sources, backup, log }: Config,
  name: (key: string) => string,
): string[] {
  const paths = {
    'database.ssl_ca': database.ssl_ca,
    'storage.s3_ca_file': storage.s3_ca_file,
    'search.opensearch_ca_file': search.opensearch_ca_file,
    'sources.ca_file': sources.ca_file,
    'backup.key_file': backup.key_file,
    'log.file': log.file,
  }
  const problems = Object.entries(paths).flatMap(([key, path]) => {
    try {
      if (path === '') return []
      if (/\.(ssl_ca|\w*ca_file)$/.test(key)) readCertificates(path)
      else if (key === 'log.file') requireAppendable(path)
      else accessSync(path, constants.R_OK)
      return []
    } catch (error) {
      return [formatFileError(`${name(key)}: ${(error as Error).message}`)]
    }
  })
  return [...(server.tls_cert && server.tls_key ? keyPairProblems(server, name) : []), ...problems]
}

/** Throws unless lines can be appended to the file, or it does not exist and its folder is writable. */
function requireAppendable(path: string): void {
  try {
    // Without O_NONBLOCK, a named pipe waits for its reader.
    closeSync(openSync(path, constants.O_WRONLY | constants.O_APPEND | constants.O_NONBLOCK))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    accessSync(dirname(path), constants.W_OK)
  }
}

function keyPairProblems(server: Config['server'], name: (key: string) => string): readonly string[] {
  try {
    readKeyPair(server, name)
    return []
  } catch (error) {
    return (error as ConfigError).problems
  }
}

const isBelow = (folder: string, path: string): boolean => {
  const [first = ''] = relative(folder, path).split(sep)
  return first !== '' && first !== '..'
}

/** Returns warnings about unusual settings. */
export function findWarnings({ auth }: Config, name: (key: string) => string): string[] {
  if (auth.session_lifetime_hours === 24) return []
  return [`${name('auth.session_lifetime_hours')}=${auth.session_lifetime_hours}: the documented token lifetime is 24 hours`]
}

function secretProblems(secret: string): string[] {
  const fix = 'make one with: openssl rand -base64 48'
  if (secret === '') return []
  if (secret.length < 32) return [`${secret.length} characters; at least 32 are needed; ${fix}`]
  return guessablePattern.test(secret) ? [`is a secret that anybody can guess; ${fix}`] : []
}

/** Settings that each authentication method of an OpenID Connect client requires. */
const requiredByAuthMethod = {
  none: ['issuer', 'client_id'],
  client_secret_post: ['issuer', 'client_id', 'client_secret'],
  client_secret_basic: ['issuer', 'client_id', 'client_secret'],
  private_key_jwt: ['issuer', 'client_id', 'client_private_key'],
} as const

/** Settings of the S3 store that require another setting. */
const requiredByS3Settings = [
  ['s3_bucket', 's3_access_key_id'],
  ['s3_access_key_id', 's3_secret_access_key'],
  ['s3_secret_access_key', 's3_access_key_id'],
] as const

function oidcProblems({ issuer, scope, client_private_key }: Config['oidc'], name: (key: string) => string): string[] {
  const problems: string[] = []
  if (client_private_key !== '' && !isPrivateKey(client_private_key))
    problems.push(`${name('oidc.client_private_key')}: not a PKCS 8 key in PEM, or encrypted`)
  if (!scope.split(' ').includes('openid'))
    problems.push(`${name('oidc.scope')}: "${scope}" lacks openid, without which the provider returns no ID token`)
  const { protocol, hostname } = issuer === '' ? { protocol: 'https:', hostname: '' } : new URL(issuer)
  if (protocol === 'http:' && !/^(localhost|127\.[\d.]+|\[::1\])$/.test(hostname))
    problems.push(`${name('oidc.issuer')}: ${issuer} is not https, and not on this machine`)
  return problems
}

function isPrivateKey(pem: string): boolean {
  try {
    // Loads node:crypto only here, because every command loads this file.
    process.getBuiltinModule('node:crypto').createPrivateKey(pem)
    return pem.includes('-----BEGIN PRIVATE KEY-----')
  } catch {
    return false
  }
}
