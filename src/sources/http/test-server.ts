/** Connection test for sources on a server. */

import { promises as dns } from 'node:dns'
import { isIP } from 'node:net'
import { type SourceConnection, SourceFailure } from '../../ports/source-type.ts'
import { toSourceFailure } from './failures.ts'
import type { HttpClient } from './http-client.ts'
import { type Guard, isAllowed } from './ssrf-guard.ts'

/** Paths to show, and the maximum number of directories listed to find them. */
const sampleSize = 5
const sampleFolders = 20

/** Resolves the name, connects, identifies the server and lists a sample. Never throws. */
export async function testServer(
  url: URL,
  guard: Guard,
  signal: AbortSignal,
  http: HttpClient,
  walk: SourceConnection['walk'],
  describe?: (signal: AbortSignal) => Promise<string>,
): ReturnType<SourceConnection['test']> {
  const checks: { name: string; ok: boolean; message: string }[] = []
  const sample: string[] = []
  const addCheck = (name: string, ok: boolean, message: string) => {
    checks.push({ name, ok, message })
    return ok
  }
  const runCheck = (name: string, message: string, run: () => Promise<unknown>) =>
    run().then(
      () => addCheck(name, true, message),
      (error) => addCheck(name, false, toSourceFailure(error).message),
    )
  const collectSample = async () => {
    let folders = 0
    for await (const entry of walk({ known: async () => null, signal })) {
      if (entry.kind === 'file') sample.push(entry.file.path)
      if (entry.kind === 'folder') folders += 1
      if (sample.length === sampleSize || folders === sampleFolders) return
    }
  }
  const isNumber = isIP(url.hostname.replace(/^\[|\]$/g, '')) !== 0
  if (
    !(await runCheck(
      'name',
      isNumber ? 'is an address' : 'is known',
      async () => isNumber || (await assertResolvable(url.hostname, guard)),
    ))
  )
    return { checks, sample }
  if (!(await runCheck('connection', url.protocol === 'https:' ? 'stands, and its certificate is good' : 'stands', () => http.connect())))
    return { checks, sample }
  const failure = await collectSample().then(
    () => null,
    (error) => toSourceFailure(error),
  )
  if (failure && ['SOURCE_UNAUTHORIZED', 'SOURCE_FORBIDDEN'].includes(failure.code)) addCheck('sign-in', false, failure.message)
  else {
    addCheck('sign-in', true, 'is accepted, or not asked for')
    // Optional: not every server identifies itself. One that answers without a list may be another kind of server.
    const isAnswered = failure === null || failure.code === 'SOURCE_PROTOCOL'
    const description = isAnswered && (await describe?.(signal).catch(() => null))
    if (description) addCheck('server', true, description)
    addCheck('listing', failure === null, failure?.message ?? 'can be listed')
  }
  return { checks, sample }
}

/** Throws where a name has no allowed address. */
async function assertResolvable(hostname: string, { allowPrivateNetworks, lookup }: Guard): Promise<void> {
  const found = lookup
    ? await new Promise<{ address: string }[]>((resolve, reject) =>
        lookup(hostname, { all: true }, (error, all) => (error ? reject(error) : resolve(all))),
      )
    : await dns.lookup(hostname, { all: true })
  if (!found.some(({ address }) => isAllowed(address, allowPrivateNetworks))) throw new SourceFailure('SOURCE_ADDRESS_FORBIDDEN')
}
