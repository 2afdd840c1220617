/** The fields of a user as they come in: one spelling of each, so that two users cannot look the same. */
import { z } from 'zod'

/** No space, control, invisible or unassigned character; no @, so that a name is never an e-mail address. */
const visibleOnly = /^[^\p{C}\p{Z}\p{Default_Ignorable_Code_Point}@]*$/u

export const Username = z.string().trim().normalize('NFKC').min(1).max(64).regex(visibleOnly, 'no @, space, control or invisible character')

/** As browsers check it, which lets admin@localhost pass. */
export const Email = z.email({ pattern: z.regexes.html5Email, error: 'an e-mail address' }).max(254)

export const DisplayName = z
  .string()
  .trim()
  .max(100)
  .regex(/^\P{Cc}*$/u, 'no control character')

export const Role = z.enum(['admin', 'user'])

/** What makes two user names the same. */
export const usernameKey = (username: string): string => username.trim().normalize('NFKC').toLowerCase().normalize('NFKC')

/** What makes two e-mail addresses the same. */
export const emailKey = (email: string): string => email.trim().toLowerCase()
