/** Shared links as a visitor has them: a token, or the whole address. */
import type { Client } from '../../client/client.ts'
import type { Cli } from '../runtime/context.ts'
import { usage } from '../runtime/exit.ts'

export interface Visit {
  readonly token: string
  readonly publicLinks: Client['publicLinks']
}

const path = /\/api\/(?:v1\/)?public\/shared\/([\w-]+)\/?$/

/** Where a link is looked up. An address goes to its own server, without any token of ours, unless that is the server we work with. Throws Failure USAGE. */
export async function visitOf(cli: Cli, given: string): Promise<Visit> {
  const url = URL.parse(given)
  if (!url) return { token: tokenIn(given), publicLinks: (await cli.client()).publicLinks }
  const token = path.exec(url.pathname)?.[1]
  if (token === undefined || !/^https?:$/.test(url.protocol)) throw usage(`"${given}" is not the address of a shared link`)
  const base = url.href.slice(0, url.href.indexOf('/api/'))
  if (cli.options.printCurl) {
    const { curlClient } = await import('./print-curl.ts')
    return { token, publicLinks: curlClient({ url: base, caFile: null }, cli.write).publicLinks }
  }
  if (await isOurs(cli, base)) return { token, publicLinks: (await cli.client()).publicLinks }
  const { strangerThere } = await import('./remote.ts')
  const { caFile } = cli.options.asked
  const client = await strangerThere({ name: base, url: base, context: null, isByUrl: true, caFile }, cli.way)
  cli.onEnd(() => client.close())
  return { token, publicLinks: client.publicLinks }
}

function tokenIn(given: string): string {
  if (!/^[\w-]+$/.test(given)) throw usage('that is neither the token nor the address of a shared link')
  return given
}

async function isOurs(cli: Cli, base: string): Promise<boolean> {
  const { url } = cli.target
  const ours = url ?? (await cli.config()).config.server.public_url
  return ours.replace(/\/+$/, '') === base
}
