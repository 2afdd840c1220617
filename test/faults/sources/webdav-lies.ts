/** F20: a WebDAV server that violates its protocol, one source per case. */
import { openHandlerServer } from '../../support/servers/handler-server.ts'
import { multistatus, self, xml } from '../../support/servers/webdav-lies.ts'
import { sha256Of } from '../caller.ts'
import { type Fault, type FaultContext, type FaultResult, type FaultRun, openFaultRun } from '../fault.ts'
import { createSource, type SyncedSource, type SyncState } from './synced-source.ts'
import { type Lie, lies, listed, newFile, sampleOfLies, victim } from './webdav-lie-cases.ts'

/** milliseconds until the answer of a source counts as stalled; no case of the short form stalls, and a busy machine is slow */
const timeoutMs = { whole: 2000, short: 30_000 }
const mostForSyncMs = 180_000
/** concurrent cases: a case mostly waits */
const concurrency = 4

export const misbehavingWebdav: Fault = { id: 'F20', name: 'a WebDAV server that does not keep to its protocol', isLong: true, run }

async function run({ installation, isShort }: FaultContext): Promise<FaultResult> {
  const env = {
    DMS_OCR_ENABLED: 'false',
    DMS_SOURCES_TIMEOUT: `${isShort ? timeoutMs.short : timeoutMs.whole}ms`,
    DMS_SOURCES_MAX_FILE_SIZE: '100kB',
    DMS_SOURCES_MAX_SYNCS_PER_USER: String(concurrency),
  }
  const server = await installation.start({ env })
  const faultRun = await openFaultRun(installation)
  const chosen = isShort ? lies.filter(({ name }) => sampleOfLies.includes(name)) : [...lies]
  const waiting = [...chosen]
  let passed = 0
  const tryLies = async () => {
    for (let lie = waiting.shift(); lie; lie = waiting.shift()) if (await tryLie(faultRun, lie)) passed++
  }
  await Promise.all(Array.from({ length: concurrency }, tryLies))
  faultRun.notes.push(`${passed} of ${chosen.length} cases passed`)
  const result = await faultRun.finish(`${chosen.length} lies of a server`)
  await server.kill()
  return result
}

/** Syncs before, during and after the misbehaviour, and once more. Returns whether everything was as expected. */
async function tryLie({ caller, ledger, problems }: FaultRun, lie: Lie): Promise<boolean> {
  const mismatches: string[] = []
  const expect = (isTrue: boolean, otherwise: string) => void (isTrue || mismatches.push(`${lie.name}: ${otherwise}`))
  /** content by name; unique in each case, as equal files of one owner share their bytes */
  const files = new Map<string, string>()
  const put = (name: string, version: number) => files.set(name, `${lie.name}, ${name}, version ${version}`)
  let isLying = false

  const share = await openHandlerServer('/dav/', (request, response, count) => {
    if (isLying && lie.answer(files, request, response, count)) return
    const content = files.get((request.url ?? '').slice('/dav/'.length))
    if (request.method === 'PROPFIND') response.writeHead(207, xml).end(multistatus(self, ...listed(files)))
    else if (content === undefined) response.writeHead(404).end()
    else response.end(content)
  })
  try {
    put(victim, 1)
    put('same.txt', 1)
    const before = new Map(files)
    const source = await createSource(caller, { name: lie.name, url: share.url }, mostForSyncMs)
    expectCounts(expect, 'before the lie', await source.sync(), { created: 2, updated: 0 })

    put(victim, 2)
    put(newFile, 1)
    isLying = true
    const during = await source.sync()
    expect(during?.state === lie.ends, `the sync is ${during?.state ?? 'not over in time'}, and not ${lie.ends}`)
    const codes = [during?.error?.code, ...(during?.errors ?? []).map(({ code }) => code)].filter((code) => code !== undefined)
    expect(codes.join() === (lie.code ?? ''), `the errors are "${codes}", and not "${lie.code ?? ''}"`)
    expect(during?.removed === 0, `${during?.removed} files were taken for removed`)
    // Where the sync goes on, what is not concerned is taken in.
    const stored = lie.isOfVictim || lie.ends === 'failed' ? before : new Map(files)
    const fresh = lie.isOfVictim ? new Map([...before, [newFile, files.get(newFile) ?? '']]) : stored
    await expectDocuments(caller, expect, 'during the lie', source, fresh)

    isLying = false
    const missing = { created: files.size - fresh.size, updated: fresh.get(victim) === files.get(victim) ? 0 : 1 }
    expectCounts(expect, 'after the lie', await source.sync(), missing)
    const documents = await expectDocuments(caller, expect, 'after the lie', source, files)
    const requests = share.seen.length
    const again = await source.sync()
    expectCounts(expect, 'once more', again, { created: 0, updated: 0 })
    const downloads = share.seen.slice(requests).filter((line) => line.startsWith('GET'))
    expect(again?.bytes === 0 && downloads.length === 0, `an unchanged share had ${downloads.length} files fetched again`)
    // From here on the auditor holds them against these bytes, too.
    for (const [path, id] of documents) {
      const content = Buffer.from(files.get(path) ?? '')
      ledger.acknowledged++
      ledger.uploads.set(id, { sha256: sha256Of(content), size: content.length, word: null })
    }
  } finally {
    share.close()
  }
  problems.push(...mismatches)
  return mismatches.length === 0
}

type Expect = (isTrue: boolean, otherwise: string) => void

function expectCounts(expect: Expect, when: string, state: SyncState | null, { created, updated }: { created: number; updated: number }) {
  expect(state?.state === 'completed', `${when}: the sync is ${state?.state ?? 'not over in time'} ${state?.error?.code ?? ''}`)
  if (!state) return
  const isAsExpected = state.created === created && state.updated === updated && state.failed === 0 && state.removed === 0
  const { created: isCreated, updated: isUpdated, failed, removed } = state
  expect(
    isAsExpected,
    `${when}: ${isCreated} created, ${isUpdated} updated, ${failed} failed, ${removed} removed; not ${created}, ${updated}, 0, 0`,
  )
}

/** Checks that each file has one document with its bytes, not marked as removed. Returns their ids by path. */
async function expectDocuments(
  caller: FaultRun['caller'],
  expect: Expect,
  when: string,
  source: SyncedSource,
  files: ReadonlyMap<string, string>,
): Promise<Map<string, string>> {
  const documents = await source.documents()
  const paths = documents.map(({ source_path }) => source_path).sort()
  expect(paths.join() === [...files.keys()].sort().join(), `${when}: there are documents of ${paths}, and not of ${[...files.keys()]}`)
  for (const { id, source_path, metadata } of documents) {
    expect(!('source_removed_at' in metadata), `${when}: the document of ${source_path} is marked as removed`)
    const { status, body } = await caller.download(id)
    expect(status === 200 && body.toString() === files.get(source_path), `${when}: the document of ${source_path} has other bytes`)
  }
  return new Map(documents.map(({ id, source_path }) => [source_path, id]))
}
