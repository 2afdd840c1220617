/**
 * Temporary credentials of the machine, found as AWS SDKs find them: a web identity, the endpoint of a container, or version 2 of the instance
 * metadata service of EC2. See https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html.
 */
import { readFile } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { request } from 'undici'
import { z } from 'zod'
import { shareRuns } from '../concurrency.ts'
import { tryParseJson } from '../json.ts'
import { readXml } from '../xml.ts'
import type { Credentials } from './signed-requests.ts'

export type Variables = Readonly<Record<string, string | undefined>>

interface Options {
  /** variables of the process */
  readonly variables: Variables
  readonly region: string
  /** current time in milliseconds */
  now?(): number
}

interface Temporary {
  readonly credentials: Credentials
  /** milliseconds since 1970 */
  readonly expiresAt: number
}

const requestTimeoutMs = 5000
/** Time before the expiry of credentials at which new ones are requested. */
const refreshMs = 5 * 60_000
/** Time between two requests for new credentials while the old ones are valid. */
const retryMs = 10_000
/** Lifetime of credentials without an expiration. */
const defaultLifetimeMs = 3600_000
const metadataTokenSecs = 21_600
/** Hosts that may be asked for container credentials over plain HTTP: ECS, EKS Pod Identity, and this machine. */
const plainHosts = /^(169\.254\.170\.2|169\.254\.170\.23|\[fd00:ec2::23\]|localhost|127\.\d+\.\d+\.\d+|\[::1\])$/

/** Returns a function that provides valid credentials, and throws if it cannot get any. */
export function openInstanceCredentials({ variables, region, now = Date.now }: Options): () => Promise<Credentials> {
  const load = chooseProvider(variables, region)
  let current: (Temporary & { refreshAt: number }) | null = null

  const refresh = shareRuns(async (): Promise<Credentials> => {
    const { credentials, expiresAt } = await load(now)
    current = { credentials, expiresAt, refreshAt: expiresAt - Math.min(refreshMs, (expiresAt - now()) / 2) }
    return credentials
  })
  return async () => {
    if (current === null || now() >= current.expiresAt) return refresh()
    if (now() >= current.refreshAt) {
      current.refreshAt = now() + retryMs
      refresh().catch(() => {})
    }
    return current.credentials
  }
}

type Provider = (now: () => number) => Promise<Temporary>

function chooseProvider(variables: Variables, region: string): Provider {
  if (variables.AWS_WEB_IDENTITY_TOKEN_FILE) return (now) => assumeRole(variables, region, now)
  if (variables.AWS_CONTAINER_CREDENTIALS_RELATIVE_URI || variables.AWS_CONTAINER_CREDENTIALS_FULL_URI)
    return async (now) => parseCredentials(await askContainer(variables), now)
  return async (now) => parseCredentials(await askInstance(variables), now)
}

/** Exchanges the token of a web identity, such as a service account of Kubernetes, for credentials of a role. */
async function assumeRole(variables: Variables, region: string, now: () => number): Promise<Temporary> {
  const form = new URLSearchParams({
    Action: 'AssumeRoleWithWebIdentity',
    Version: '2011-06-15',
    RoleArn: variables.AWS_ROLE_ARN ?? '',
    RoleSessionName: variables.AWS_ROLE_SESSION_NAME || 'dms',
    WebIdentityToken: (await readFile(variables.AWS_WEB_IDENTITY_TOKEN_FILE ?? '', 'utf8')).trim(),
  })
  const domain = region.startsWith('cn-') ? 'amazonaws.com.cn' : 'amazonaws.com'
  const answer = await ask(variables.AWS_ENDPOINT_URL_STS || `https://sts.${region}.${domain}/`, {
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: form.toString(),
  })
  const format = { root: 'AssumeRoleWithWebIdentityResponse', label: 'an STS response', maxBodyBytes: 1 << 20, maxChildLength: 1 << 20 }
  const fields: Record<string, string> = {}
  await readXml(Readable.from([Buffer.from(answer)]), format, (path, text) => {
    const [, name] = /^AssumeRoleWithWebIdentityResult\/Credentials\/(\w+)$/.exec(path) ?? []
    if (name) fields[name] = text
  })
  return parseCredentials(JSON.stringify({ ...fields, Token: fields.SessionToken }), now)
}

/** Asks the endpoint of a container. Throws for an address that could leak the token. */
async function askContainer(variables: Variables): Promise<string> {
  const { AWS_CONTAINER_CREDENTIALS_RELATIVE_URI: path, AWS_CONTAINER_CREDENTIALS_FULL_URI: full = '' } = variables
  const url = path ? new URL(path, 'http://169.254.170.2') : new URL(full)
  if (url.protocol !== 'https:' && !plainHosts.test(url.hostname))
    throw new Error(`AWS_CONTAINER_CREDENTIALS_FULL_URI: ${url.origin} is neither https nor the endpoint of a container`)
  const file = variables.AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE
  const token = (file ? await readFile(file, 'utf8') : (variables.AWS_CONTAINER_AUTHORIZATION_TOKEN ?? '')).trim()
  return ask(url.href, { headers: token === '' ? {} : { authorization: token } })
}

/** Asks the instance metadata service. The session token of version 2 stops requests that a proxy was tricked into. */
async function askInstance(variables: Variables): Promise<string> {
  if (variables.AWS_EC2_METADATA_DISABLED?.toLowerCase() === 'true') throw new Error('AWS_EC2_METADATA_DISABLED is true')
  const base = new URL('/latest/', variables.AWS_EC2_METADATA_SERVICE_ENDPOINT || 'http://169.254.169.254')
  const token = await ask(new URL('api/token', base).href, {
    method: 'PUT',
    headers: { 'x-aws-ec2-metadata-token-ttl-seconds': String(metadataTokenSecs) },
  })
  const headers = { 'x-aws-ec2-metadata-token': token }
  const roles = new URL('meta-data/iam/security-credentials/', base)
  const [role = ''] = (await ask(roles.href, { headers })).trim().split('\n')
  if (role === '') throw new Error('the instance has no role')
  return ask(new URL(encodeURIComponent(role.trim()), roles).href, { headers })
}

async function ask(url: string, options: { method?: 'GET' | 'PUT' | 'POST'; headers: Record<string, string>; body?: string }) {
  const { statusCode, body } = await request(url, { ...options, reset: true, signal: AbortSignal.timeout(requestTimeoutMs) })
  const text = await body.text()
  if (statusCode === 200) return text
  const { origin, pathname } = new URL(url)
  throw new Error(`no credentials from ${origin}${pathname}: status ${statusCode}`)
}

const Answer = z.object({
  AccessKeyId: z.string().min(1),
  SecretAccessKey: z.string().min(1),
  Token: z.string().optional(),
  Expiration: z.string().optional(),
})

/** Parses credentials. Errors contain no values, because every value is a secret. */
function parseCredentials(json: string, now: () => number): Temporary {
  const parsed = Answer.safeParse(tryParseJson(json))
  if (!parsed.success) throw new Error('the endpoint of credentials sent none')
  const { AccessKeyId, SecretAccessKey, Token, Expiration } = parsed.data
  const expiresAt = Expiration === undefined ? now() + defaultLifetimeMs : Date.parse(Expiration)
  if (Number.isNaN(expiresAt)) throw new Error('the endpoint of credentials sent an invalid Expiration')
  return {
    credentials: { accessKeyId: AccessKeyId, secretAccessKey: SecretAccessKey, ...(Token ? { sessionToken: Token } : {}) },
    expiresAt,
  }
}
