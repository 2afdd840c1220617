import type { H3Event } from 'h3'
import { AppError } from '../errors.ts'

/** The bearer token of a request, or null where it has no Authorization header. Throws UNAUTHORIZED for anything but exactly one token. */
export function bearerToken(event: H3Event): string | null {
  // Node keeps the first of several headers; only the raw list shows that there were more.
  const raw = event.runtime?.node?.req.rawHeaders ?? []
  const isRepeated = raw.filter((name, at) => at % 2 === 0 && name.toLowerCase() === 'authorization').length > 1
  const header = event.req.headers.get('authorization')
  if (header === null) return null
  const token = /^bearer ([^\s,]+)$/i.exec(header)?.[1]
  if (!token || isRepeated) throw new AppError('UNAUTHORIZED')
  return token
}
