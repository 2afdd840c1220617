/** Shared links in arguments: a token or a URL. */
import type { Client } from '../../client/client.ts'
import type { Cli } from '../runtime/context.ts'
import { usage } from '../runtime/exit.ts'

export interface SharedLinkTarget {
  readonly token: string
  readonly publicLinks: Client['publicLinks']
}

const path = /\/api\/(?:v1\/)?public\/shared\/([\w-]+)\/?$/

/** Resolves a shared link. A URL is requested from its own server without our token, unless it is the current server. Throws Failure USAGE. */
export async function resolveSharedLink(cli: Cli, tokenOrUrl: string): Promise<SharedLinkTarget> {
  const url = URL.parse(tokenOrUrl)
  if (!url) return { token: parseToken(tokenOrUrl), publicLinks: (await cli.client()).publicLinks }
  const token = path.exec(url.pathname)?.[1]
  if (token === undefined || !/^https?:$/.test(url.protocol)) throw usage(`"${tokenOrUrl}" is not the URL of a shared link`)
  const base = url.href.slice(0, url.href.indexOf('/api/'))
  if (cli.options.printCurl) {
    const { createCurlClient } = await import('./curl-client.ts')
    return { token, publicLinks: createCurlClient({ url: base, caFile: null }, cli.write).publicLinks }
  }
  if (await isOwnServer(cli, base)) return { token, publicLinks: (await cli.client()).publicLinks }
  const { openAnonymousClient } = await import('./remote-client.ts')
  const { caFile } = cli.options.requestedTarget
  const client = await openAnonymousClient({ name: base, url: base, context: null, isByUrl: true, caFile }, cli.connectOptions)
  cli.onEnd(() => client.close())
  return { token, publicLinks: client.publicLinks }
}

function parseToken(token: string): string {
  if (!/^[\w-]+$/.test(token)) throw usage('the argument is neither the token nor the URL of a shared link')
  return token
}

async function isOwnServer(cli: Cli, base: string): Promise<boolean> {
  const { url } = cli.target
  const ours = url ?? (await cli.config()).config.server.public_url
  return ours.replace(/\/+$/, '') === base
}
