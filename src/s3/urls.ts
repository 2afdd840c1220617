/** URLs of objects, encoded for signatures. */

/**
 * Returns the URL of an object; `bucket` is the URL of its bucket. Also encodes characters that signatures require to be encoded and
 * encodeURIComponent leaves alone.
 */
export function objectUrl(bucket: URL, key: string): URL {
  const encoded = key.split('/').map(encodeKey).join('/')
  return new URL(`${bucket.origin}${bucket.pathname.replace(/\/$/, '')}/${encoded}`)
}

/** Percent-encodes text for signed paths and queries. */
export const encodeKey = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`)

/** Returns a query with encoded values. */
export const encodeQuery = (query: Readonly<Record<string, string>>): string =>
  Object.entries(query)
    .map(([name, value]) => `${name}=${encodeKey(value)}`)
    .join('&')
