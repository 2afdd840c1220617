/** Resolves and validates the hrefs of WebDAV listings. */
import { decodePath, maxDepth, maxPathBytes } from '../http/urls.ts'

/** Compares the decoded paths of two URLs. */
export const isSameFolder = (one: URL, other: URL): boolean => decodePath(one.pathname)?.join('/') === decodePath(other.pathname)?.join('/')

/** Target of an href: the listed folder, an entry in it, something deeper, or an invalid place. */
export type HrefTarget = { is: 'self' } | { is: 'child'; name: string } | { is: 'deeper' } | { is: 'wrong'; message: string }

/** Returns a function that resolves hrefs in the listing of `folder`; `path` is its path below the address. */
export function createHrefResolver(folder: URL, path: string): (href: string) => HrefTarget {
  const base = decodePath(folder.pathname) ?? []
  const depth = path === '' ? 0 : path.split('/').length
  const room = maxPathBytes - Buffer.byteLength(path) - 1
  return (href) => {
    const absolute = /^(?:[a-z][a-z0-9+.-]*:)?\/\/([^/]*)(.*)$/is.exec(href)
    // Behind a proxy, servers often send a wrong scheme or port. Requests go to the configured address anyway.
    if (absolute && parseHost(absolute[1] ?? '') !== folder.hostname) return invalidHref('The name points at another server.')
    const own = absolute ? absolute[2] || '/' : href
    if (own === '') return invalidHref('The list holds something without a name.')
    // Most hrefs begin with the requested path or are relative to it, so only their end is decoded.
    const end = own.startsWith(folder.pathname) ? own.slice(folder.pathname.length) : own.startsWith('/') ? null : own
    const parts = decodePath(end ?? own)
    if (parts === null) return invalidHref('The name is not UTF-8, or holds “..”, a slash, a backslash or a control character.')
    const depthOfBase = end === null ? base.length : 0
    if (end === null && !base.every((part, index) => parts[index] === part))
      return invalidHref('The name lies outside the folder that was listed.')
    const name = parts[depthOfBase]
    if (name === undefined) return { is: 'self' }
    if (parts.length > depthOfBase + 1) return { is: 'deeper' }
    if (Buffer.byteLength(name) > room) return invalidHref(`The path is longer than ${maxPathBytes} bytes.`)
    if (depth >= maxDepth) return invalidHref(`The path is deeper than ${maxDepth} folders: is it a loop?`)
    return { is: 'child', name }
  }
}

const invalidHref = (message: string): HrefTarget => ({ is: 'wrong', message })

const parseHost = (authority: string) => (URL.canParse(`http://${authority}`) ? new URL(`http://${authority}`).hostname : '')
