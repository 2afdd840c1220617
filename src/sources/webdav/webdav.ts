/** A folder of a WebDAV server (RFC 4918): Nextcloud, ownCloud, Apache, nginx, rclone and their like. */
import type { SourceAddress, SourceConnection, SourceEntry, SourceFailure, SourceLimits, SourceType } from '../../ports/source-type.ts'
import { readBody } from '../http/body.ts'
import { probe } from '../http/probe.ts'
import { byPassword, failureOf, openRequests } from '../http/requests.ts'
import { checkHost, type Guard } from '../http/ssrf-guard.ts'
import { folderUrl, urlBelow } from './hrefs.ts'
import { type Listing, listFolder } from './listing.ts'

/** Folders in a row that fail for a reason that has nothing to do with them, after which the walk is given up. */
const maxFailures = 3
const isGeneral = ({ code, isRetryable: retry }: SourceFailure) =>
  code === 'SOURCE_UNREACHABLE' || code === 'SOURCE_UNAUTHORIZED' || code === 'SOURCE_TOO_SLOW' || (code === 'SOURCE_BUSY' && retry)

export const webdav: SourceType = { open: (address, limits) => openWebdav(address, limits) }

/** The same with another way to look up names. */
export function openWebdav(address: SourceAddress, limits: SourceLimits, lookup?: Guard['lookup']): SourceConnection {
  const given = folderUrl(address.url)
  const guard = { allowPrivateNetworks: limits.allowPrivateNetworks, lookup }
  checkHost(given.hostname, guard)
  const requests = openRequests(given, byPassword(given, address), limits, guard)
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
            yield { kind: 'folder', path: folder.path, etag: folder.etag, isPruned: true }
          else waiting.push(folder.path)
        }
      }
      yield { kind: 'folder', path, etag: first.isOwnCloud ? listing.etag : null, isPruned: false }
    }

    try {
      if (first.isOwnCloud && first.etag !== null && (await known('')) === first.etag) {
        yield { kind: 'folder', path: '', etag: first.etag, isPruned: true }
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
    read: (file, signal) => readBody(requests, urlBelow(root, file.path, false), file, limits.maxFileBytes, signal),
    test: (signal) =>
      probe(
        given,
        guard,
        signal,
        requests,
        (options) => walk(options, 1),
        async (stop) => (await import('./describe-server.ts')).describeServer(root, requests, stop),
      ),
    close: () => requests.close(),
  }
}

type Listed = { path: string; listing: Listing; failure?: undefined } | { path: string; listing?: undefined; failure: SourceFailure }

const outcome = (path: string, listing: Promise<Listing>): Promise<Listed> =>
  listing.then(
    (found) => ({ path, listing: found }),
    (error) => ({ path, failure: failureOf(error) }),
  )
