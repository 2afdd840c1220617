import { randomInt } from 'node:crypto'

/** No character that looks like another. */
const alphabet = 'abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789-_.'

/** A random password, at least 24 characters (140 bits), with a digit and a special character among them, as a policy may ask. */
export function inventPassword(length = 24): string {
  for (;;) {
    const password = Array.from({ length: Math.max(24, length) }, () => alphabet[randomInt(alphabet.length)]).join('')
    if (/\d/.test(password) && /[-_.]/.test(password)) return password
  }
}
