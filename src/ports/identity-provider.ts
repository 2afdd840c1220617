/** Interfaces of tokens, password hashing and identity providers. */

/** Claims of a token. Times are in seconds since 1970. */
export interface Claims {
  /** Id of the user. */
  readonly sub: string
  /** Id of the token. */
  readonly jti: string
  readonly iat: number
  readonly exp: number
  /** token_version of the user. Incrementing it revokes all earlier tokens. */
  readonly ver: number
  /** Time of the login, in tokens that were refreshed. */
  readonly auth_time?: number | undefined
}

/** Signs and verifies tokens. */
export interface Tokens {
  /** Returns a one-way hash of the secret. Servers with equal fingerprints accept each other's tokens. */
  fingerprint(): string
  sign(claims: Claims): Promise<string>
  /** Returns the claims of a token with a valid signature, even if it has expired; else null. */
  read(token: string): Promise<Claims | null>
}

/** Encrypts and authenticates values that clients hold. */
export interface EncryptedTokens {
  /** Encrypts a value for a purpose and a number of seconds. It cannot be decrypted for another purpose. */
  encrypt(purpose: string, value: unknown, seconds: number, now: Date): Promise<string>
  /** Returns the encrypted value; null for an invalid or expired one. */
  decrypt(purpose: string, text: string, now: Date): Promise<unknown>
}

/** Identity of a user at a provider. */
export interface Identity {
  readonly issuer: string
  /** Permanent id of the user at the issuer. */
  readonly subject: string
  readonly username: string | null
  readonly email: string | null
  /** The provider has verified the address. */
  readonly isEmailVerified: boolean
  readonly displayName: string
  /** Domain of the account (claim `hd`). */
  readonly hostedDomain: string | null
  readonly groups: readonly string[]
}

/** State between the redirect to the provider and the callback. */
export interface LoginState {
  readonly verifier: string
  readonly state: string
  readonly nonce: string
}

/** Authenticates users at an OpenID Connect provider. */
export interface IdentityProvider {
  readonly issuer: string
  /** Returns the URL of the provider, which redirects the browser back to `redirectUri`. Throws IdentityFailure. */
  startLogin(redirectUri: string): Promise<{ url: string; loginState: LoginState }>
  /** Verifies the callback URL and returns the identity. Throws IdentityFailure. */
  handleCallback(callback: URL, memory: LoginState): Promise<Identity>
  /** Checks the steps of a login. Returns `ok` or an error message for each. Never throws. */
  check(): Promise<Record<string, string>>
}

/** A login failed: the provider is unavailable or its response is invalid. */
export class IdentityFailure extends Error {
  readonly kind: 'unavailable' | 'refused'

  constructor(kind: 'unavailable' | 'refused', message: string) {
    super(message)
    this.name = 'IdentityFailure'
    this.kind = kind
  }
}

/** Hashes passwords. It is slow on purpose; only a few hashes run at a time. */
export interface PasswordHasher {
  hash(password: string): Promise<string>
  /**
   * Tells if the password matches the hash. Without a hash, returns false after the same time. Throws SERVICE_UNAVAILABLE if too many others wait, unless
   * `isTrusted`: anybody may send passwords.
   */
  verify(hash: string | null, password: string, options?: { isTrusted?: boolean }): Promise<boolean>
}
