/** The names that a WebDAV server gives to things, and what is believed of them. */
import { SourceFailure } from '../../ports/source-type.ts'

/** Levels of folders below the address; deeper is taken for a loop. */
export const maxDepth = 256
/** Bytes of a path below the address. */
export const maxPathBytes = 2000
const schemes = ['http:', 'https:']

/** The URL of a source's folder, with `/` at its end. Throws SourceFailure SOURCE_ADDRESS_INVALID. */
export function folderUrl(address: string): URL {
  const invalid = (message: string) => new SourceFailure('SOURCE_ADDRESS_INVALID', message)
  if (/[\\\s]/.test(address) || hasControls(address)) throw invalid('The address holds a space, a backslash or a control character.')
  if (!URL.canParse(address)) throw invalid('The address is not a URL.')
  const url = new URL(address)
  if (!schemes.includes(url.protocol)) throw invalid('The address must begin with http:// or https://.')
  if (url.username !== '' || url.password !== '')
    throw invalid('The address holds a username or a password: they have fields of their own.')
  if (url.search !== '' || url.hash !== '') throw invalid('The address ends with ?… or #…, which folders do not have.')
  if (decodedParts(url.pathname) === null) throw invalid('The address holds a part that is not UTF-8, or no name.')
  if (!url.pathname.endsWith('/')) url.pathname += '/'
  return url
}

/** The URL of what is at `path` below the folder. */
export function urlBelow(folder: URL, path: string, isFolder: boolean): URL {
  const encoded = path.split('/').map(encodeURIComponent).join('/')
  return new URL(`${folder.origin}${folder.pathname}${encoded}${isFolder && path !== '' ? '/' : ''}`)
}

/** Whether two URLs of one server name the same folder, however they are written. */
export const isSameFolder = (one: URL, other: URL): boolean =>
  decodedParts(one.pathname)?.join('/') === decodedParts(other.pathname)?.join('/')

/** Where an href points: at the folder that was listed, right below it (`name`), further down, or where it must not. */
export type Place = { is: 'self' } | { is: 'child'; name: string } | { is: 'deeper' } | { is: 'wrong'; message: string }

/** Judges the hrefs of the listing of `folder`, whose path below the address is `path`. */
export function placesOf(folder: URL, path: string): (href: string) => Place {
  const base = decodedParts(folder.pathname) ?? []
  const depth = path === '' ? 0 : path.split('/').length
  const room = maxPathBytes - Buffer.byteLength(path) - 1
  return (href) => {
    const absolute = /^(?:[a-z][a-z0-9+.-]*:)?\/\/([^/]*)(.*)$/is.exec(href)
    // Servers behind proxies get the scheme and the port of their own URLs wrong; requests only ever go to the address.
    if (absolute && hostOf(absolute[1] ?? '') !== folder.hostname) return wrong('The name points at another server.')
    const own = absolute ? absolute[2] || '/' : href
    if (own === '') return wrong('The list holds something without a name.')
    // Written as it was asked for, as most are, or relative to it: then only the end is to be read.
    const end = own.startsWith(folder.pathname) ? own.slice(folder.pathname.length) : own.startsWith('/') ? null : own
    const parts = decodedParts(end ?? own)
    if (parts === null) return wrong('The name is not UTF-8, or holds “..”, a slash, a backslash or a control character.')
    const depthOfBase = end === null ? base.length : 0
    if (end === null && !base.every((part, index) => parts[index] === part))
      return wrong('The name lies outside the folder that was listed.')
    const name = parts[depthOfBase]
    if (name === undefined) return { is: 'self' }
    if (parts.length > depthOfBase + 1) return { is: 'deeper' }
    if (Buffer.byteLength(name) > room) return wrong(`The path is longer than ${maxPathBytes} bytes.`)
    if (depth >= maxDepth) return wrong(`The path is deeper than ${maxDepth} folders: is it a loop?`)
    return { is: 'child', name }
  }
}

const wrong = (message: string): Place => ({ is: 'wrong', message })

/** An href that is wrong, fit to be shown. */
export function shown(href: string): string {
  const start = [...href.slice(0, 400)].slice(0, 200).join('')
  return (start.length < href.length ? `${start}…` : start).toWellFormed().replace(/\p{Cc}/gu, '\ufffd')
}

/** The parts of a path, decoded once; null where one cannot be a name. What was encoded twice keeps its second coding: it is the name. */
export function decodedParts(path: string): string[] | null {
  try {
    const parts = path
      .split('/')
      .filter((part) => part !== '')
      .map(decodeURIComponent)
    return parts.every(isName) ? parts : null
  } catch {
    return null
  }
}

/** Whether one part of a path may be called so. */
export const isName = (name: string) => name !== '.' && name !== '..' && !/[/\\]/.test(name) && !hasControls(name) && name.isWellFormed()
const hasControls = (text: string) => /\p{Cc}/u.test(text)
const hostOf = (authority: string) => (URL.canParse(`http://${authority}`) ? new URL(`http://${authority}`).hostname : '')
