/** Parses and builds URLs of sources, and validates the names in them. */
import { SourceFailure } from '../../ports/source-type.ts'

/** Directory levels below the address; deeper ones count as a loop. */
export const maxDepth = 256
export const maxPathBytes = 2000
const schemes = ['http:', 'https:']

/** Parses the URL of a source and adds a trailing `/`. Throws SourceFailure SOURCE_ADDRESS_INVALID. */
export function folderUrl(address: string): URL {
  const invalid = (message: string) => new SourceFailure('SOURCE_ADDRESS_INVALID', message)
  if (/[\\\s]/.test(address) || hasControlCharacters(address))
    throw invalid('The address contains a space, a backslash or a control character.')
  if (!URL.canParse(address)) throw invalid('The address is not a URL.')
  const url = new URL(address)
  if (!schemes.includes(url.protocol)) throw invalid('The address must begin with http:// or https://.')
  if (url.username !== '' || url.password !== '') throw invalid('The address contains a username or a password. Set them separately.')
  if (url.search !== '' || url.hash !== '') throw invalid('The address has a query (?…) or a fragment (#…).')
  if (decodePath(url.pathname) === null) throw invalid('The path of the address is not valid UTF-8, or contains “..”.')
  if (!url.pathname.endsWith('/')) url.pathname += '/'
  return url
}

/** Returns the URL of the entry at `path` below the folder. The path of a folder ends with `/`, or is empty. */
export function urlBelow(folder: URL, path: string): URL {
  const encoded = path.split('/').map(encodeURIComponent).join('/')
  return new URL(`${folder.origin}${folder.pathname}${encoded}`)
}

/** Shortens an invalid href and removes control characters, for messages. */
export function truncateForDisplay(href: string): string {
  const start = [...href.slice(0, 400)].slice(0, 200).join('')
  return (start.length < href.length ? `${start}…` : start).toWellFormed().replace(/\p{Cc}/gu, '\ufffd')
}

/** Decodes the parts of a path once; null if one is invalid. A second encoding belongs to the name. */
export function decodePath(path: string): string[] | null {
  try {
    const parts = path
      .split('/')
      .filter((part) => part !== '')
      .map(decodeURIComponent)
    return parts.every(isValidName) ? parts : null
  } catch {
    return null
  }
}

/** Returns true if text is valid as one part of a path. */
export const isValidName = (name: string) =>
  name !== '.' && name !== '..' && !/[/\\]/.test(name) && !hasControlCharacters(name) && name.isWellFormed()
const hasControlCharacters = (text: string) => /\p{Cc}/u.test(text)
