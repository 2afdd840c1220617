/** Reads values of HTTP headers. */
import type { Dispatcher } from 'undici'

export type RawResponse = Dispatcher.ResponseData

/** Returns a header, the first one of several. */
export function getHeader({ headers }: RawResponse, name: string): string | undefined {
  const value = headers[name]
  return Array.isArray(value) ? value[0] : value
}

/** Removes the weak mark of an etag: Apache sends it only in the first second of a file's life. */
export const normalizeEtag = (etag: string | undefined): string | null =>
  etag?.replace(/^W\//, '').replace(/^""$/, '').slice(0, 512) || null

/** Limits times to the years that PostgreSQL can store. */
export const isStorableTime = (time: number) => time > -62_135_596_800_000 && time < 253_402_300_800_000
