/** Connection test for sources on a server. */

import { promises as dns } from 'node:dns'
import { isIP } from 'node:net'
import { type SourceConnection, SourceFailure } from '../../ports/source-type.ts'
import { startConnectionChecks } from '../connection-checks.ts'
import type { HttpClient } from './http-client.ts'
import { toSourceFailure } from './responses.ts'
import { type Guard, isAllowed } from './ssrf-guard.ts'

interface ServerToTest {
  readonly url: URL
  readonly guard: Guard
  readonly http: HttpClient
  readonly walk: SourceConnection['walk']
  /** identifies the server */
  readonly describe?: (signal: AbortSignal) => Promise<string>
}

/** Resolves the name, connects, identifies the server and lists a sample. Never throws. */
export async function testServer(
  { url, guard, http, walk, describe }: ServerToTest,
  signal: AbortSignal,
): ReturnType<SourceConnection['test']> {
  const { result, add, run, collectSample } = startConnectionChecks(toSourceFailure)
  const isIpAddress = isIP(url.hostname.replace(/^\[|\]$/g, '')) !== 0
  const resolveName = async () => isIpAddress || (await assertResolvable(url.hostname, guard))
  if (!(await run('name', isIpAddress ? 'is an IP address' : 'resolves', resolveName))) return result
  if (!(await run('connection', url.protocol === 'https:' ? 'established, certificate trusted' : 'established', () => http.connect())))
    return result
  const failure = await collectSample(walk, signal).then(() => null, toSourceFailure)
  if (failure && ['SOURCE_UNAUTHORIZED', 'SOURCE_FORBIDDEN'].includes(failure.code))
    add({ name: 'sign-in', ok: false, message: failure.message })
  else {
    add({ name: 'sign-in', ok: true, message: 'accepted, or not required' })
    // Not every server identifies itself. A server that answers without a list may be of another kind.
    const isAnswered = failure === null || failure.code === 'SOURCE_PROTOCOL'
    const description = isAnswered && (await describe?.(signal).catch(() => null))
    if (description) add({ name: 'server', ok: true, message: description })
    add({ name: 'listing', ok: failure === null, message: failure?.message ?? 'can be listed' })
  }
  return result
}

/** Throws if a name has no allowed address. */
async function assertResolvable(hostname: string, { allowPrivateNetworks, lookup }: Guard): Promise<void> {
  const addresses = lookup
    ? await new Promise<{ address: string }[]>((resolve, reject) =>
        lookup(hostname, { all: true }, (error, all) => (error ? reject(error) : resolve(all))),
      )
    : await dns.lookup(hostname, { all: true })
  if (!addresses.some(({ address }) => isAllowed(address, { allowPrivateNetworks }))) throw new SourceFailure('SOURCE_ADDRESS_FORBIDDEN')
}
