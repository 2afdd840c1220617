/** JSON Web Tokens: session tokens signed with HS256, and encrypted values that clients carry for some minutes. */
import { hash, hkdf, hkdfSync } from 'node:crypto'
import { promisify } from 'node:util'
import { LRUCache } from 'lru-cache'
import { z } from 'zod'
import type { Claims, EncryptedTokens, Tokens } from '../ports/identity-provider.ts'

const header = { alg: 'HS256', typ: 'JWT' } as const
const encodedHeader = Buffer.from(JSON.stringify(header)).toString('base64url')

/** Three parts. The last part is 32 bytes in base64url; its final character has one valid encoding. */
const compactForm = /^[\w-]{1,100}\.[\w-]{1,1000}\.[\w-]{42}[AEIMQUYcgkosw048]$/

const Payload = z.strictObject({
  sub: z.uuid(),
  jti: z.uuid(),
  iat: z.int().positive(),
  exp: z.int().positive(),
  ver: z.int().positive(),
  auth_time: z.int().positive().optional(),
})

/** Signs and verifies tokens under one secret. Caches verified tokens by SHA-256 and so checks each signature once. */
export function openTokens(secret: Uint8Array): Tokens {
  let imported: Promise<CryptoKey> | undefined
  // On demand, because commands on this machine need no tokens, and Web Crypto takes 10 ms to load.
  const key = (): Promise<CryptoKey> =>
    (imported ??= crypto.subtle.importKey('raw', Uint8Array.from(secret), { name: 'HMAC', hash: 'SHA-256' }, false, ['sign', 'verify']))
  const verified = new LRUCache<string, Claims>({ max: 10_000 })
  return {
    fingerprint: () => Buffer.from(hkdfSync('sha256', secret, '', 'dms secret fingerprint', 16)).toString('hex'),
    async sign(claims) {
      const { CompactSign } = await import('jose')
      return new CompactSign(new TextEncoder().encode(JSON.stringify(claims))).setProtectedHeader(header).sign(await key())
    },
    async read(token) {
      // Accepts only the header that sign() writes: no other algorithm, embedded key or key URL.
      if (!compactForm.test(token) || !token.startsWith(`${encodedHeader}.`)) return null
      const id = hash('sha256', token, 'base64')
      const claims = verified.get(id) ?? (await verifySignature(token, await key()))
      if (claims) verified.set(id, claims)
      return claims
    },
  }
}

async function verifySignature(token: string, key: CryptoKey): Promise<Claims | null> {
  try {
    const { compactVerify } = await import('jose')
    const { payload } = await compactVerify(token, key, { algorithms: [header.alg] })
    return Payload.safeParse(JSON.parse(new TextDecoder().decode(payload))).data ?? null
  } catch {
    return null
  }
}

/** Opens encrypted tokens under a key derived from the server secret, which all server processes share. */
export function openEncryptedTokens(secret: Uint8Array): EncryptedTokens {
  const key = promisify(hkdf)('sha256', secret, '', 'dms encrypted tokens', 32).then((bytes) => new Uint8Array(bytes))
  return {
    async encrypt(purpose, value, seconds, now) {
      const { EncryptJWT } = await import('jose')
      const iat = Math.floor(now.getTime() / 1000)
      const token = new EncryptJWT({ value, aud: purpose, iat, exp: iat + seconds })
      return token.setProtectedHeader({ alg: 'dir', enc: 'A256GCM' }).encrypt(await key)
    },
    async decrypt(purpose, text, now) {
      const { jwtDecrypt } = await import('jose')
      try {
        const { payload } = await jwtDecrypt(text, await key, {
          audience: purpose,
          currentDate: now,
          requiredClaims: ['exp', 'iat'],
          keyManagementAlgorithms: ['dir'],
          contentEncryptionAlgorithms: ['A256GCM'],
        })
        // Rejects tokens from the future: after the clock was set back they would be valid for too long.
        return Number(payload.iat) * 1000 <= now.getTime() ? payload.value : null
      } catch {
        return null
      }
    },
  }
}
