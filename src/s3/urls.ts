/** URLs of objects, encoded as signatures need it. */

/** Returns the URL of an object; `bucket` is the URL of its bucket. Also encodes the characters that encodeURIComponent leaves alone and signatures do not. */
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
