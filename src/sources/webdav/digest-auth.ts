/** Signing in to a WebDAV server: Digest (RFC 7616) where it asks for that, else Basic. */
import { createHash, randomBytes } from 'node:crypto'

export interface Challenge {
  /** in lower case */
  readonly scheme: string
  readonly parameters: ReadonlyMap<string, string>
}

const hashes: Readonly<Record<string, string>> = { MD5: 'md5', 'SHA-256': 'sha256', 'SHA-512-256': 'sha512-256' }

/** Reads WWW-Authenticate, which may hold several challenges. */
export function challengesOf(header: string | readonly string[] | undefined): Challenge[] {
  const found: { scheme: string; parameters: Map<string, string> }[] = []
  const text = [header ?? []].flat().join(', ').slice(0, 8192)
  // A word with "=" after it is a parameter, any other the scheme of the next challenge.
  const word = /([\w-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))|([\w-]+)(?=[\s,]|$)/g
  for (const [, name, quoted, plain, scheme] of text.matchAll(word)) {
    if (scheme !== undefined) found.push({ scheme: scheme.toLowerCase(), parameters: new Map() })
    else if (name !== undefined) found.at(-1)?.parameters.set(name.toLowerCase(), quoted?.replace(/\\(.)/g, '$1') ?? plain ?? '')
  }
  return found
}

export const basic = (username: string, password: string): string => `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`

/** What answers Digest challenges of one server; counts how often a nonce was used. */
export interface DigestAnswers {
  /** The Authorization for a request. `uri` is its path and query. */
  answer(method: string, uri: string): string
}

/** The strongest Digest challenge that can be answered; null where there is none. */
export function digest(challenges: readonly Challenge[], username: string, password: string): DigestAnswers | null {
  const algorithmOf = ({ parameters }: Challenge) => parameters.get('algorithm') ?? 'MD5'
  const usable = challenges.filter(
    (challenge) => challenge.scheme === 'digest' && challenge.parameters.has('nonce') && hashOf(algorithmOf(challenge)) !== undefined,
  )
  const best = usable.find((challenge) => hashOf(algorithmOf(challenge)) !== 'md5') ?? usable[0]
  if (!best) return null
  const { parameters } = best
  const algorithm = algorithmOf(best)
  const [realm, nonce, opaque] = [parameters.get('realm') ?? '', parameters.get('nonce') ?? '', parameters.get('opaque')]
  const qop = (parameters.get('qop') ?? '').split(/\s*,\s*/).includes('auth') ? 'auth' : null
  const hash = (text: string) =>
    createHash(hashOf(algorithm) ?? 'md5')
      .update(text)
      .digest('hex')
  const secret = hash(`${username}:${realm}:${password}`)
  let count = 0
  return {
    answer(method, uri) {
      count += 1
      const uses = count.toString(16).padStart(8, '0')
      const own = randomBytes(16).toString('hex')
      const key = /-sess$/i.test(algorithm) ? hash(`${secret}:${nonce}:${own}`) : secret
      const request = hash(`${method}:${uri}`)
      const response = hash(qop ? `${key}:${nonce}:${uses}:${own}:${qop}:${request}` : `${key}:${nonce}:${request}`)
      const fields = [
        `username=${quote(username)}`,
        `realm=${quote(realm)}`,
        `nonce=${quote(nonce)}`,
        `uri=${quote(uri)}`,
        `algorithm=${algorithm}`,
        `response="${response}"`,
        ...(opaque === undefined ? [] : [`opaque=${quote(opaque)}`]),
        ...(qop ? [`qop=${qop}`, `nc=${uses}`, `cnonce="${own}"`] : /-sess$/i.test(algorithm) ? [`cnonce="${own}"`] : []),
      ]
      return `Digest ${fields.join(', ')}`
    },
  }
}

const hashOf = (algorithm: string): string | undefined => hashes[algorithm.toUpperCase().replace(/-SESS$/, '')]
/** As header text: bytes of UTF-8, since headers are sent as Latin-1. */
const quote = (text: string): string => `"${Buffer.from(text.replace(/["\\]/g, '\\$&')).toString('latin1')}"`
