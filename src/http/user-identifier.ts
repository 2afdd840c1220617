/** How users are named in paths, queries and on the command line: by id, e-mail address or user name. */
import { isId } from './input.ts'

/** Returns the form of a user name by which two names are compared. */
export const usernameKey = (username: string): string => username.trim().normalize('NFKC').toLowerCase().normalize('NFKC')

/** Returns the form of an e-mail address by which two addresses are compared. */
export const emailKey = (email: string): string => email.trim().toLowerCase()

/** Returns the column of `users` to look an identifier up in, and the value. Text in the form of an id is never a name. */
export function parseUserIdentifier(identifier: string): { column: 'id' | 'email_key' | 'username_key'; value: string } {
  const trimmed = identifier.trim()
  if (isId(trimmed)) return { column: 'id', value: trimmed.toLowerCase() }
  if (trimmed.includes('@')) return { column: 'email_key', value: emailKey(trimmed) }
  return { column: 'username_key', value: usernameKey(trimmed) }
}
