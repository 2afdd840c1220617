/** What we ask of tokens, seals, passwords and providers of identities. */

/** What a token says; times in seconds since 1970. */
export interface Claims {
  /** the user's id */
  readonly sub: string
  /** the token's own id */
  readonly jti: string
  readonly iat: number
  readonly exp: number
  /** the user's token_version when it was signed; raising that makes all older tokens void */
  readonly ver: number
  /** when its holder signed in; only of tokens that were exchanged for others */
  readonly auth_time?: number | undefined
}

/** Signs tokens and reads them back. */
export interface Tokens {
  sign(claims: Claims): Promise<string>
  /** What a token says if it is one of ours, whether or not it is still in time; null for anything else. */
  read(token: string): Promise<Claims | null>
}

/** Hands out values that nobody else can read or change, and knows them again. */
export interface EncryptedTokens {
  /** `purpose` tells one use from another: what is sealed for one cannot be opened as the other. `seconds`: how long it is good. */
  encrypt(purpose: string, value: unknown, seconds: number, now: Date): Promise<string>
  /** What was sealed; null for anything else, and when its time is over. */
  decrypt(purpose: string, text: string, now: Date): Promise<unknown>
}

/** What a provider of identities says of somebody. */
export interface Identity {
  readonly issuer: string
  /** who it is, for ever, at that issuer */
  readonly subject: string
  readonly username: string | null
  readonly email: string | null
  /** whether the provider itself has verified the address */
  readonly isEmailVerified: boolean
  readonly displayName: string
  /** the domain that the account belongs to (`hd`) */
  readonly hostedDomain: string | null
  readonly groups: readonly string[]
}

/** What has to be remembered of somebody who was sent to the provider, until they are back. */
export interface LoginState {
  readonly verifier: string
  readonly state: string
  readonly nonce: string
}

/** Signs people in elsewhere. */
export interface IdentityProvider {
  readonly issuer: string
  /** Where to send a browser, which will come back to `redirectUri`. Throws IdentityFailure. */
  startLogin(redirectUri: string): Promise<{ url: string; loginState: LoginState }>
  /** Who came back: `callback` is the redirect address with what the provider added. Throws IdentityFailure for everything that is not exactly right. */
  handleCallback(callback: URL, memory: LoginState): Promise<Identity>
  /** What a sign-in needs, step by step: `ok`, or what is wrong. Never throws. */
  check(): Promise<Record<string, string>>
}

/** Somebody could not be signed in: the provider is away, or what it said is not valid. */
export class IdentityFailure extends Error {
  readonly kind: 'unavailable' | 'refused'

  constructor(kind: 'unavailable' | 'refused', message: string) {
    super(message)
    this.name = 'IdentityFailure'
    this.kind = kind
  }
}

/** Turns passwords into what can be kept. Slow on purpose; a few run at a time, the others wait. */
export interface PasswordHasher {
  hash(password: string): Promise<string>
  /** Whether the password belongs to the hash. Without a hash: false, after the same time. */
  verify(hash: string | null, password: string): Promise<boolean>
}
