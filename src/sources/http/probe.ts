/** The test of a source that lies on a server. */
import { promises as dns } from 'node:dns'
import { isIP } from 'node:net'
import { type SourceConnection, SourceFailure } from '../../ports/source-type.ts'
import { failureOf, type Requests } from './requests.ts'
import { type Guard, isAllowed } from './ssrf-guard.ts'

/** What a test shows of the folder, and how many folders it looks into for that. */
const sampleSize = 5
const sampleFolders = 20

/** Looks up the name, connects, asks what the server is, and lists until there is enough to show. Never throws. */
export async function probe(
  url: URL,
  guard: Guard,
  signal: AbortSignal,
  requests: Requests,
  walk: SourceConnection['walk'],
  describe?: (signal: AbortSignal) => Promise<string>,
): ReturnType<SourceConnection['test']> {
  const checks: { name: string; ok: boolean; message: string }[] = []
  const sample: string[] = []
  const note = (name: string, ok: boolean, message: string) => {
    checks.push({ name, ok, message })
    return ok
  }
  const step = (name: string, message: string, run: () => Promise<unknown>) =>
    run().then(
      () => note(name, true, message),
      (error) => note(name, false, failureOf(error).message),
    )
  const sampled = async () => {
    let folders = 0
    for await (const entry of walk({ known: async () => null, signal })) {
      if (entry.kind === 'file') sample.push(entry.file.path)
      if (entry.kind === 'folder') folders += 1
      if (sample.length === sampleSize || folders === sampleFolders) return
    }
  }
  const isNumber = isIP(url.hostname.replace(/^\[|\]$/g, '')) !== 0
  if (!(await step('name', isNumber ? 'is an address' : 'is known', async () => isNumber || (await resolved(url.hostname, guard)))))
    return { checks, sample }
  if (!(await step('connection', url.protocol === 'https:' ? 'stands, and its certificate is good' : 'stands', () => requests.connect())))
    return { checks, sample }
  const failure = await sampled().then(
    () => null,
    (error) => failureOf(error),
  )
  if (failure && ['SOURCE_UNAUTHORIZED', 'SOURCE_FORBIDDEN'].includes(failure.code)) note('sign-in', false, failure.message)
  else {
    note('sign-in', true, 'is accepted, or not asked for')
    // Nothing depends on it, and not every server tells. One that answers, but with no list, may be no such server at all.
    const isAnswered = failure === null || failure.code === 'SOURCE_PROTOCOL'
    const description = isAnswered && (await describe?.(signal).catch(() => null))
    if (description) note('server', true, description)
    note('listing', failure === null, failure?.message ?? 'can be listed')
  }
  return { checks, sample }
}

/** Throws where a name has no address that may be spoken to. */
async function resolved(hostname: string, { allowPrivateNetworks, lookup }: Guard): Promise<void> {
  const found = lookup
    ? await new Promise<{ address: string }[]>((resolve, reject) =>
        lookup(hostname, { all: true }, (error, all) => (error ? reject(error) : resolve(all))),
      )
    : await dns.lookup(hostname, { all: true })
  if (!found.some(({ address }) => isAllowed(address, allowPrivateNetworks))) throw new SourceFailure('SOURCE_ADDRESS_FORBIDDEN')
}
