/** Values handed to somebody who must neither read nor change them, for some minutes. */
import { hkdf } from 'node:crypto'
import { promisify } from 'node:util'
import type { EncryptedTokens } from '../ports/identity-provider.ts'

/** Seals under a key of their own, drawn from the server's secret, which all server processes share. */
export function openEncryptedTokens(secret: Uint8Array): EncryptedTokens {
  const key = promisify(hkdf)('sha256', secret, '', 'dms seals', 32).then((bytes) => new Uint8Array(bytes))
  return {
    async encrypt(purpose, value, seconds, now) {
      const { EncryptJWT } = await import('jose')
      const iat = Math.floor(now.getTime() / 1000)
      const token = new EncryptJWT({ value }).setProtectedHeader({ alg: 'dir', enc: 'A256GCM' }).setAudience(purpose)
      return token
        .setIssuedAt(iat)
        .setExpirationTime(iat + seconds)
        .encrypt(await key)
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
        // From the future: the clock was set back, and what was sealed before would be good for as much longer.
        return Number(payload.iat) * 1000 <= now.getTime() ? payload.value : null
      } catch {
        return null
      }
    },
  }
}
