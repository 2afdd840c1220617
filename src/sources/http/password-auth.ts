/** HTTP authentication with Digest (RFC 7616) or Basic (RFC 7617). */
import { createHash, randomBytes } from 'node:crypto'
import type { SourceAddress } from '../../ports/source-type.ts'
import { type Authenticator, drainBody } from './http-client.ts'

/** Authenticates with Basic or Digest, as the server demands. */
export function passwordAuth({ protocol }: URL, { username, password }: Pick<SourceAddress, 'username' | 'password'>): Authenticator {
  const credentials = username === null ? null : { username, password: password ?? '' }
  // Without TLS, Basic is used only after the server has rejected anything better.
  let scheme: { basic: string } | { digest: DigestAuth } | null =
    credentials && protocol === 'https:' ? { basic: basicAuth(credentials.username, credentials.password) } : null
  return {
    async send({ method }, url, sendOnce) {
      const sendSigned = () => {
        if (scheme === null) return sendOnce({})
        return sendOnce({ authorization: 'basic' in scheme ? scheme.basic : scheme.digest.authorize(method, url.pathname + url.search) })
      }
      const usedScheme = scheme
      const raw = await sendSigned()
      if (raw.statusCode !== 401 || credentials === null) return raw
      const next = chooseScheme(parseChallenges(raw.headers['www-authenticate']), credentials)
      // A rejected Basic password stays rejected; a Digest nonce may have expired.
      if (next === null || ('basic' in next && usedScheme !== null && 'basic' in usedScheme)) return raw
      await drainBody(raw)
      scheme = next
      return sendSigned()
    },
  }
}

function chooseScheme(challenges: readonly Challenge[], { username, password }: { username: string; password: string }) {
  const digest = chooseDigest(challenges, username, password)
  if (digest) return { digest }
  return challenges.some(({ scheme }) => scheme === 'basic') ? { basic: basicAuth(username, password) } : null
}

interface Challenge {
  /** in lower case */
  readonly scheme: string
  readonly parameters: ReadonlyMap<string, string>
}

const hashes: Readonly<Record<string, string>> = { MD5: 'md5', 'SHA-256': 'sha256', 'SHA-512-256': 'sha512-256' }

/** Parses WWW-Authenticate headers, which may contain several challenges. */
function parseChallenges(header: string | readonly string[] | undefined): Challenge[] {
  const parsed: { scheme: string; parameters: Map<string, string> }[] = []
  const text = [header ?? []].flat().join(', ').slice(0, 8192)
  // A word followed by "=" is a parameter; any other word is the scheme of the next challenge.
  const word = /([\w-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))|([\w-]+)(?=[\s,]|$)/g
  for (const [, name, quoted, plain, scheme] of text.matchAll(word)) {
    if (scheme !== undefined) parsed.push({ scheme: scheme.toLowerCase(), parameters: new Map() })
    else if (name !== undefined) parsed.at(-1)?.parameters.set(name.toLowerCase(), quoted?.replace(/\\(.)/g, '$1') ?? plain ?? '')
  }
  return parsed
}

const basicAuth = (username: string, password: string): string => `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`

/** Answers the Digest challenges of one server and counts the uses of the nonce. */
interface DigestAuth {
  /** Returns the Authorization header of a request. `uri` is its path and query. */
  authorize(method: string, uri: string): string
}

/** Chooses the strongest supported Digest challenge; null for none. */
function chooseDigest(challenges: readonly Challenge[], username: string, password: string): DigestAuth | null {
  const algorithmOf = ({ parameters }: Challenge) => parameters.get('algorithm') ?? 'MD5'
  const usable = challenges.filter(
    (challenge) =>
      challenge.scheme === 'digest' && challenge.parameters.has('nonce') && hashAlgorithm(algorithmOf(challenge)) !== undefined,
  )
  const best = usable.find((challenge) => hashAlgorithm(algorithmOf(challenge)) !== 'md5') ?? usable[0]
  if (!best) return null
  const { parameters } = best
  const algorithm = algorithmOf(best)
  const realm = parameters.get('realm') ?? ''
  const nonce = parameters.get('nonce') ?? ''
  const opaque = parameters.get('opaque')
  const qop = (parameters.get('qop') ?? '').split(/\s*,\s*/).includes('auth') ? 'auth' : null
  const hash = (text: string) =>
    createHash(hashAlgorithm(algorithm) ?? 'md5')
      .update(text)
      .digest('hex')
  const secret = hash(`${username}:${realm}:${password}`)
  let count = 0
  return {
    authorize(method, uri) {
      count += 1
      const nonceCount = count.toString(16).padStart(8, '0')
      const cnonce = randomBytes(16).toString('hex')
      const key = /-sess$/i.test(algorithm) ? hash(`${secret}:${nonce}:${cnonce}`) : secret
      const request = hash(`${method}:${uri}`)
      const response = hash(qop ? `${key}:${nonce}:${nonceCount}:${cnonce}:${qop}:${request}` : `${key}:${nonce}:${request}`)
      const fields = [
        `username=${quote(username)}`,
        `realm=${quote(realm)}`,
        `nonce=${quote(nonce)}`,
        `uri=${quote(uri)}`,
        `algorithm=${algorithm}`,
        `response="${response}"`,
        ...(opaque === undefined ? [] : [`opaque=${quote(opaque)}`]),
        ...(qop ? [`qop=${qop}`, `nc=${nonceCount}`, `cnonce="${cnonce}"`] : /-sess$/i.test(algorithm) ? [`cnonce="${cnonce}"`] : []),
      ]
      return `Digest ${fields.join(', ')}`
    },
  }
}

const hashAlgorithm = (algorithm: string): string | undefined => hashes[algorithm.toUpperCase().replace(/-SESS$/, '')]
/** Quotes text as UTF-8 bytes, because headers are sent as Latin-1. */
const quote = (text: string): string => `"${Buffer.from(text.replace(/["\\]/g, '\\$&')).toString('latin1')}"`
