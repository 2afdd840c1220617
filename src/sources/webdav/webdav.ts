/** Source type for folders of WebDAV servers (RFC 4918): Nextcloud, ownCloud, Apache, nginx, rclone and others. */

import {
  type SourceAddress,
  type SourceConnection,
  type SourceEntry,
  SourceFailure,
  type SourceLimits,
  type SourceType,
} from '../../ports/source-type.ts'
import { openHttpClient } from '../http/http-client.ts'
import { passwordAuth } from '../http/password-auth.ts'
import { readBody } from '../http/read-body.ts'
import { needsPause, toSourceFailure } from '../http/responses.ts'
import { assertHostAllowed, type Guard } from '../http/ssrf-guard.ts'
import { testServer } from '../http/test-server.ts'
import { folderUrl, urlBelow } from '../http/urls.ts'
import { type Listing, listFolder } from './listing.ts'

/** Consecutive source-wide failures after which the walk is aborted, unless the root can be listed: then they concern their folders only. */
const maxConsecutiveFailures = 3
/** Default maximum number of entries of a folder, and of folders that wait to be listed. */
const defaultMaxEntries = 500_000

export const webdav: SourceType = { open: (address, limits) => openWebdav(address, limits) }

/** Opens a folder. `lookup` replaces the resolver in tests. */
export function openWebdav(address: SourceAddress, limits: SourceLimits, lookup?: Guard['lookup']): SourceConnection {
  const baseUrl = folderUrl(address.url)
  const guard = { allowPrivateNetworks: limits.allowPrivateNetworks, lookup }
  assertHostAllowed(baseUrl.hostname, guard)
  const http = openHttpClient(baseUrl, passwordAuth(baseUrl, address), limits, guard)
  const { maxEntries = defaultMaxEntries } = limits
  /** after redirects */
  let root = baseUrl

  async function* walk({ loadTag, signal }: Parameters<SourceConnection['walk']>[0], maxAttempts?: number): AsyncGenerator<SourceEntry> {
    const stop = new AbortController()
    const both = AbortSignal.any([signal, stop.signal])
    const list = (path: string) => listFolder(http, { root, path, signal: both, maxEntries, maxAttempts })
    const first = await listFolder(http, { root: baseUrl, path: '', signal: both, maxEntries, maxAttempts })
    root = first.url
    const waiting: string[] = []
    const running = new Map<string, Promise<ListOutcome>>()
    let failures = 0

    async function* emitListing(path: string, listing: Listing): AsyncGenerator<SourceEntry> {
      for (const file of listing.files()) yield { kind: 'file', file }
      yield* listing.problems
      if (address.recursive) {
        for (const folder of listing.folders()) {
          // Only ownCloud's folder etags cover everything below.
          if (first.isOwnCloud && folder.etag !== null && (await loadTag(folder.path)) === folder.etag)
            yield { kind: 'folder', path: folder.path, etag: folder.etag, isPruned: true }
          else if (waiting.push(folder.path) > maxEntries)
            throw new SourceFailure('SOURCE_PROTOCOL', `More than ${maxEntries} folders wait to be listed.`)
        }
      }
      yield { kind: 'folder', path, etag: first.isOwnCloud ? listing.etag : null, isPruned: false }
    }

    try {
      if (first.isOwnCloud && first.etag !== null && (await loadTag('')) === first.etag) {
        yield { kind: 'folder', path: '', etag: first.etag, isPruned: true }
        return
      }
      yield* emitListing('', first)
      while (waiting.length > 0 || running.size > 0) {
        // Depth-first: the stack grows with the depth of the tree and not with its width.
        while (running.size < limits.concurrency && waiting.length > 0) {
          const path = waiting.pop() as string
          running.set(path, listOrFail(path, list(path)))
        }
        const { path, listing, failure } = await Promise.race(running.values())
        running.delete(path)
        signal.throwIfAborted()
        if (listing) {
          failures = 0
          yield* emitListing(path, listing)
        } else {
          failures = failure.isSourceWide ? failures + 1 : 0
          if (failures === maxConsecutiveFailures) {
            if (needsPause(failure) || !(await listOrFail('', list(''))).listing) throw failure
            failures = 0
          }
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
    read: (file, signal) => readBody(http, { url: urlBelow(root, file.path) }, file, limits.maxFileBytes, signal),
    test: (signal) =>
      testServer(
        {
          url: baseUrl,
          guard,
          http,
          walk: (options) => walk(options, 1),
          describe: async (stop) => (await import('./describe-server.ts')).describeServer(root, http, stop),
        },
        signal,
      ),
    close: () => http.close(),
  }
}

type ListOutcome = { path: string; listing: Listing; failure?: undefined } | { path: string; listing?: undefined; failure: SourceFailure }

const listOrFail = (path: string, listing: Promise<Listing>): Promise<ListOutcome> =>
  listing.then(
    (result) => ({ path, listing: result }),
    (error) => ({ path, failure: toSourceFailure(error) }),
  )
