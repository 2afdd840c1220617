/** User identifiers in paths, queries and on the command line: id, email address or username. */
import { isId } from '../id.ts'

/** Returns the normalized form of a username for comparison. */
export const usernameKey = (username: string): string => username.trim().normalize('NFKC').toLowerCase().normalize('NFKC')

/** Returns the normalized form of an email address for comparison. */
export const emailKey = (email: string): string => email.trim().toLowerCase()

/** Returns the column of `users` and the value for a lookup. Text in the form of an id is never a username. */
export function parseUserIdentifier(identifier: string): { column: 'id' | 'email_key' | 'username_key'; value: string } {
  const trimmed = identifier.trim()
  if (isId(trimmed)) return { column: 'id', value: trimmed.toLowerCase() }
  if (trimmed.includes('@')) return { column: 'email_key', value: emailKey(trimmed) }
  return { column: 'username_key', value: usernameKey(trimmed) }
}
