import type { z } from 'zod'
import type { MessageAnswer, PasswordAnswer, registration, SignInAnswer } from '../auth/routes.ts'
import type { Profile } from '../users/routes.ts'
import type { UserAnswer } from '../users/view.ts'
import { type OpenConnection, pathOf, withQuery } from './http/connection.ts'

export type SignIn = z.infer<typeof SignInAnswer>
export type Account = z.infer<typeof UserAnswer>

/** Sign-in and the user's own account. The client stores no token: pass the result of `login` as option `token`. */
export const auth = ({ call }: OpenConnection) => ({
  /** Signs in; `username` may be the e-mail address. */
  login: (username: string, password: string): Promise<SignIn> => call('POST', pathOf('auth', 'login'), { username, password }),
  register: (account: z.input<ReturnType<typeof registration>>): Promise<Account> => call('POST', pathOf('auth', 'register'), account),
  /** Verifies an e-mail address by the token from the mail. */
  verifyEmail: (token: string): Promise<z.infer<typeof MessageAnswer>> => call('GET', withQuery(pathOf('auth', 'verify-email'), { token })),
  /** Requests another verification mail. The response does not reveal whether the account exists. */
  resendVerification: (email: string): Promise<z.infer<typeof MessageAnswer>> =>
    call('POST', pathOf('auth', 'verify-email', 'resend'), { email }),
  logout: (): Promise<z.infer<typeof MessageAnswer>> => call('POST', pathOf('auth', 'logout')),
  /** Exchanges a valid or recently expired token for a new one. Default: the token of the client. */
  refresh: (token?: string): Promise<SignIn> =>
    call('POST', pathOf('auth', 'refresh'), undefined, token === undefined ? {} : { authorization: `Bearer ${token}` }),
  /** Exchanges the code from /api/auth/oidc/login?shell_port=… for a token. The challenge was the SHA-256 of `verifier`. */
  exchange: (code: string, verifier: string): Promise<SignIn> => call('POST', pathOf('auth', 'oidc', 'exchange'), { code, verifier }),
  profile: (): Promise<Account> => call('GET', pathOf('users', 'profile')),
  updateProfile: (changes: z.input<typeof Profile>): Promise<Account> => call('PUT', pathOf('users', 'profile'), changes),
  /** Changes the password and ends all sessions. The response contains a new token. */
  changePassword: (current_password: string, new_password: string): Promise<z.infer<typeof PasswordAnswer>> =>
    call('POST', pathOf('users', 'change-password'), { current_password, new_password }),
})
