/** Encrypted tokens (JWE): values that clients carry for some minutes and can neither read nor change. */
import { hkdf } from 'node:crypto'
import { promisify } from 'node:util'
import type { EncryptedTokens } from '../ports/identity-provider.ts'

/** Opens encrypted tokens under a key derived from the server secret, which all server processes share. */
export function openEncryptedTokens(secret: Uint8Array): EncryptedTokens {
  const key = promisify(hkdf)('sha256', secret, '', 'dms encrypted tokens', 32).then((bytes) => new Uint8Array(bytes))
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
        // Rejects tokens from the future: after the clock was set back they would be valid for too long.
        return Number(payload.iat) * 1000 <= now.getTime() ? payload.value : null
      } catch {
        return null
      }
    },
  }
}
