import type { z } from 'zod'
import type { MessageAnswer, PasswordAnswer, registration, SignInAnswer } from '../auth/routes.ts'
import type { Profile } from '../users/routes.ts'
import type { UserAnswer } from '../users/view.ts'
import { type OpenConnection, pathOf, withQuery } from './connection.ts'

export type SignIn = z.infer<typeof SignInAnswer>
export type Account = z.infer<typeof UserAnswer>

/** Signing in and out, and one's own account. The client keeps no token: what `login` answers goes into its option `token`. */
export const auth = ({ call }: OpenConnection) => ({
  /** `username`: or the e-mail address */
  login: (username: string, password: string): Promise<SignIn> => call('POST', pathOf('auth', 'login'), { username, password }),
  register: (account: z.input<ReturnType<typeof registration>>): Promise<Account> => call('POST', pathOf('auth', 'register'), account),
  /** Confirms an e-mail address by the token that was sent there. */
  verifyEmail: (token: string): Promise<z.infer<typeof MessageAnswer>> => call('GET', withQuery(pathOf('auth', 'verify-email'), { token })),
  /** Has that token sent once more; the answer does not say whether there is such an account. */
  resendVerification: (email: string): Promise<z.infer<typeof MessageAnswer>> =>
    call('POST', pathOf('auth', 'verify-email', 'resend'), { email }),
  logout: (): Promise<z.infer<typeof MessageAnswer>> => call('POST', pathOf('auth', 'logout')),
  /** Exchanges this token, which may have expired a short while ago, for a new one; default: the client's own. */
  refresh: (token?: string): Promise<SignIn> =>
    call('POST', pathOf('auth', 'refresh'), undefined, token === undefined ? {} : { authorization: `Bearer ${token}` }),
  /** Exchanges the code that a browser brought from /api/auth/oidc/login?shell_port=…; `verifier`: what its challenge was made of. */
  exchange: (code: string, verifier: string): Promise<SignIn> => call('POST', pathOf('auth', 'oidc', 'exchange'), { code, verifier }),
  profile: (): Promise<Account> => call('GET', pathOf('users', 'profile')),
  updateProfile: (changes: z.input<typeof Profile>): Promise<Account> => call('PUT', pathOf('users', 'profile'), changes),
  /** Ends all sessions; the answer holds the token of a new one. */
  changePassword: (current_password: string, new_password: string): Promise<z.infer<typeof PasswordAnswer>> =>
    call('POST', pathOf('users', 'change-password'), { current_password, new_password }),
})
