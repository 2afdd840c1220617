/** A folder of a WebDAV server (RFC 4918): Nextcloud, ownCloud, Apache, nginx, rclone and their like. */
import { promises as dns } from 'node:dns'
import { isIP } from 'node:net'
import {
  type SourceAddress,
  type SourceConnection,
  type SourceEntry,
  SourceFailure,
  type SourceLimits,
  type SourceType,
} from '../../ports.ts'
import { checkHost, type Guard, isAllowed } from './guard.ts'
import { folderUrl } from './hrefs.ts'
import { failureOf, openRequests } from './requests.ts'
import { readBody } from './webdav-body.ts'
import { type Listing, listFolder } from './webdav-listing.ts'

/** What a test shows of the folder, and how many folders it looks into for that. */
const sampleSize = 5
const sampleFolders = 20
/** Folders in a row that fail for a reason that has nothing to do with them, after which the walk is given up. */
const maxFailures = 3
const isGeneral = ({ code, retry }: SourceFailure) =>
  code === 'SOURCE_UNREACHABLE' || code === 'SOURCE_UNAUTHORIZED' || (code === 'SOURCE_BUSY' && retry)

export const webdav: SourceType = { open: (address, limits) => openWebdav(address, limits) }

/** The same with another way to look up names. */
export function openWebdav(address: SourceAddress, limits: SourceLimits, lookup?: Guard['lookup']): SourceConnection {
  const given = folderUrl(address.url)
  const guard = { allowPrivateNetworks: limits.allowPrivateNetworks, lookup }
  checkHost(given.hostname, guard)
  const requests = openRequests(given, address, limits, guard)
  /** where the address leads after redirects */
  let root = given

  async function* walk({ known, signal }: Parameters<SourceConnection['walk']>[0], tries?: number): AsyncGenerator<SourceEntry> {
    const stop = new AbortController()
    const both = AbortSignal.any([signal, stop.signal])
    const list = (path: string) => listFolder(requests, { root, path, signal: both, tries })
    const first = await listFolder(requests, { root: given, path: '', signal: both, tries })
    root = first.url
    const waiting: string[] = []
    const running = new Map<string, Promise<Listed>>()
    let failures = 0

    async function* told(path: string, listing: Listing): AsyncGenerator<SourceEntry> {
      for (const file of listing.files()) yield { kind: 'file', file }
      yield* listing.problems
      if (address.recursive) {
        for (const folder of listing.folders()) {
          // Only where tags of folders tell of everything below them.
          if (first.isOwnCloud && folder.etag !== null && (await known(folder.path)) === folder.etag)
            yield { kind: 'folder', path: folder.path, etag: folder.etag, pruned: true }
          else waiting.push(folder.path)
        }
      }
      yield { kind: 'folder', path, etag: first.isOwnCloud ? listing.etag : null, pruned: false }
    }

    try {
      if (first.isOwnCloud && first.etag !== null && (await known('')) === first.etag) {
        yield { kind: 'folder', path: '', etag: first.etag, pruned: true }
        return
      }
      yield* told('', first)
      while (waiting.length > 0 || running.size > 0) {
        // The last that was found first: the pile stays as small as the tree is deep, not as it is wide.
        while (running.size < limits.concurrency && waiting.length > 0) {
          const path = waiting.pop() as string
          running.set(path, outcome(path, list(path)))
        }
        const { path, listing, failure } = await Promise.race(running.values())
        running.delete(path)
        signal.throwIfAborted()
        if (listing) {
          failures = 0
          yield* told(path, listing)
        } else {
          failures = isGeneral(failure) ? failures + 1 : 0
          if (failures === maxFailures) throw failure
          yield { kind: 'problem', path, code: failure.code, message: failure.message }
        }
      }
    } finally {
      stop.abort()
      await Promise.all(running.values())
    }
  }

  return {
    walk: (options) => walk(options),
    read: (file, signal) => readBody(requests, root, file, limits.maxFileSize, signal),
    test: (signal) => test(given, guard, signal, requests, (options) => walk(options, 1)),
    close: () => requests.close(),
  }
}

type Listed = { path: string; listing: Listing; failure?: undefined } | { path: string; listing?: undefined; failure: SourceFailure }

const outcome = (path: string, listing: Promise<Listing>): Promise<Listed> =>
  listing.then(
    (found) => ({ path, listing: found }),
    (error) => ({ path, failure: failureOf(error) }),
  )

async function test(
  url: URL,
  guard: Guard,
  signal: AbortSignal,
  requests: ReturnType<typeof openRequests>,
  walk: SourceConnection['walk'],
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
