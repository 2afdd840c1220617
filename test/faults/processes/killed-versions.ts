/**
 * F37: the server is killed at every crash point of changes to versions, trash and sources, and the worker at every crash point of a removal of
 * bytes.
 */
import { randomBytes } from 'node:crypto'
import { mkdir, realpath, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { run as runDms } from '../../support/processes/run.ts'
import { sha256Of } from '../caller.ts'
import { type Fault, type FaultContext, type FaultResult, type FaultRun, needsTracing, openFaultRun } from '../fault.ts'
import type { Installation, RunningProcess } from '../installation.ts'
import { bothMoments, type CrashPoint, crashAt, nameOf, oneFileThread } from './crash-points.ts'

/** a server without a worker; the purge below covers the calls of a worker */
const env = { ...oneFileThread, DMS_WORKER_EMBEDDED: 'false' }
/** maximum number of each call in a request */
const most = 60

export const killedVersions: Fault = {
  id: 'F37',
  name: 'kill -9 at every crash point of replace, restore, trash, undelete, purge and rollback',
  isLong: true,
  skipReason: needsTracing,
  run,
}

/** A document as clients see it: its versions by number, and whether it is in the trash. */
interface State {
  where: 'live' | 'trash' | 'gone'
  /** SHA-256 of the returned bytes, by version */
  versions: Readonly<Record<string, string>>
  /** SHA-256 of the document's bytes, and their text */
  displayed: string
  text: string
}

/** One attempt of an operation: the states before and after, and the request. */
interface Attempt {
  ids: readonly string[]
  /** status of the answer; 0: none */
  act(): Promise<number>
  /** Returns whether a document is in the expected state after the operation. */
  isDone(id: string, before: State, after: State): boolean
}

interface Operation {
  name: string
  calls: readonly string[]
  /** crash points of the short form */
  sample: readonly CrashPoint[]
  prepare(): Promise<Attempt>
}

const rows = ['write', 'writev'] as const
const rowSample: readonly CrashPoint[] = [
  { call: 'write', at: 4, moment: 'before' },
  { call: 'write', at: 8, moment: 'after' },
]

async function run({ installation, isShort }: FaultContext): Promise<FaultResult> {
  let server = await installation.start()
  const faultRun = await openFaultRun(installation)
  const { caller, ledger, expect, notes } = faultRun
  const pool = await fillPool(installation, faultRun, isShort ? 24 : 600)
  const root = await realpath(await makeFolder(installation))
  await server.kill()
  const start = () => installation.start({ env: { ...env, DMS_SOURCES_LOCAL_ROOTS: root } })
  server = await start()

  const send = async (method: string, path: string, init = {}) =>
    (await caller.call(method, path, { what: path.replaceAll(/[0-9a-f-]{36}/g, 'ID'), ...init })).status
  const take = (): string => {
    const id = pool.pop()
    if (id === undefined) throw new Error('the pool of documents is empty')
    return id
  }
  const replacement = () => {
    const form = new FormData()
    form.set('file', new Blob([randomBytes(20_000) as BlobPart]), 'new.bin')
    return { body: form }
  }
  const must = async (status: Promise<number>, ...good: number[]) => {
    const got = await status
    if (!good.includes(got)) throw new Error(`the preparation was answered with ${got}`)
  }
  const hasOneMore = (_: string, before: State, after: State) =>
    after.where === 'live' && count(after) === count(before) + 1 && includes(after, before)

  const operations: readonly Operation[] = [
    {
      name: 'replace',
      calls: ['openat', 'fsync', 'rename', 'unlink', ...rows],
      sample: [{ call: 'rename', at: 1, moment: 'after' }, ...rowSample],
      async prepare() {
        const id = take()
        const file = replacement()
        return { ids: [id], act: () => send('PUT', `/api/documents/${id}/file`, file), isDone: hasOneMore }
      },
    },
    {
      name: 'restore',
      calls: rows,
      sample: rowSample,
      async prepare() {
        const id = take()
        await must(send('PUT', `/api/documents/${id}/file`, replacement()), 201)
        const act = () => send('POST', `/api/documents/${id}/versions/1/restore`)
        return {
          ids: [id],
          act,
          isDone: (_, before, after) => hasOneMore(_, before, after) && after.displayed === before.versions[1] && after.text !== '',
        }
      },
    },
    {
      name: 'trash',
      calls: rows,
      sample: rowSample,
      async prepare() {
        const id = take()
        return {
          ids: [id],
          act: () => send('DELETE', `/api/documents/${id}`),
          isDone: (_, before, after) => after.where === 'trash' && isSame(before, after),
        }
      },
    },
    {
      name: 'undelete',
      calls: rows,
      sample: rowSample,
      async prepare() {
        const id = take()
        await must(send('DELETE', `/api/documents/${id}`), 204)
        const act = () => send('POST', `/api/documents/${id}/undelete`)
        return { ids: [id], act, isDone: (_, before, after) => after.where === 'live' && isSame(before, after) }
      },
    },
    {
      name: 'empty the trash',
      calls: rows,
      sample: rowSample,
      async prepare() {
        const [gone, held] = [take(), take()]
        const until = new Date(Date.now() + 86_400_000).toISOString()
        await must(send('PUT', `/api/documents/${held}`, caller.json({ retain_until: until })), 200)
        for (const id of [gone, held]) await must(send('DELETE', `/api/documents/${id}`), 204)
        const isDone = (id: string, before: State, after: State) =>
          id === gone ? after.where === 'gone' : after.where === 'trash' && isSame(before, after)
        return { ids: [gone, held], act: () => send('DELETE', '/api/trash'), isDone }
      },
    },
    {
      name: 'rollback',
      calls: rows,
      sample: [
        { call: 'write', at: 2, moment: 'after' },
        { call: 'write', at: 6, moment: 'before' },
      ],
      async prepare() {
        const { id, documents, before, added } = await makeEncryptedSource(installation, faultRun, root)
        const act = () => send('POST', `/api/sources/${id}/rollback`, caller.json({ before }))
        const isDone = (id: string, earlier: State, after: State) =>
          added.includes(id)
            ? after.where === 'trash' && isSame(earlier, after)
            : after.where === 'live' && after.displayed === earlier.versions[1] && includes(after, earlier)
        return { ids: [...documents, ...added], act, isDone }
      },
    },
  ]

  /** Returns whether the server was killed. */
  const killAt = async ({ name, prepare }: Operation, point: CrashPoint): Promise<boolean> => {
    const { ids, act, isDone } = await prepare()
    const before = new Map<string, State>()
    for (const id of ids) before.set(id, await stateOf(faultRun, id))
    let status = 0
    const isDead = await crashAt(server, point, async () => {
      status = await act()
      return status !== 0
    })
    if (isDead) server = await start()
    const at = `${name}, ${nameOf(point)}`
    for (const [id, earlier] of before) {
      const now = await stateOf(faultRun, id)
      const isAfter = isDone(id, earlier, now)
      const isWhole = isAfter || JSON.stringify(now) === JSON.stringify(earlier)
      expect(isWhole, `${at}: a document is neither as before nor as after: ${JSON.stringify({ earlier, now })}`)
      expect(status < 200 || status > 299 || isAfter, `${at}: answered with ${status}, but it is not so`)
    }
    if (isDead) {
      await act()
      for (const [id, earlier] of before)
        expect(isDone(id, earlier, await stateOf(faultRun, id)), `${at}: not so after the second try either`)
    }
    for (const id of ids) await note(faultRun, id)
    return isDead
  }

  let points = 0
  try {
    for (const operation of operations) {
      const first = points
      if (isShort) for (const point of operation.sample) points += Number(await killAt(operation, point))
      else
        for (const call of operation.calls)
          for (const moment of bothMoments) for (let at = 1; at <= most && (await killAt(operation, { call, at, moment })); at++) points++
      notes.push(`${operation.name}: ${points - first}`)
    }
    const purged = await killPurges(installation, faultRun, take, isShort)
    notes.push(`purge by the worker: ${purged}`)
    ledger.problems.clear()
    await server.kill()
    server = await installation.start({ env: { DMS_SOURCES_LOCAL_ROOTS: root } })
    await expectConsistent(installation, faultRun)
    return await faultRun.finish(`${points + purged} crash points`, { timeoutMs: 180_000 })
  } finally {
    await server.kill()
  }
}

const count = ({ versions }: State): number => Object.keys(versions).length
const includes = (after: State, before: State): boolean =>
  Object.entries(before.versions).every(([number, sha256]) => after.versions[number] === sha256)
const isSame = (before: State, after: State): boolean =>
  count(before) === count(after) && includes(after, before) && before.text === after.text

/** Uploads texts and waits until they are read. */
async function fillPool(installation: Installation, { caller }: FaultRun, size: number): Promise<string[]> {
  const ids: string[] = []
  for (let at = 0; at < size; at++) {
    const { id } = await caller.uploadText()
    if (id) ids.push(id)
  }
  const own = ids.map((id) => `'${id}'`).join()
  for (let round = 0; round < 1200; round++) {
    const [row] = await installation.query<{ left: number }>(
      `select count(*)::int as left from documents where id in (${own}) and status <> 'completed'`,
    )
    if (row?.left === 0) return ids
    await sleep(250)
  }
  throw new Error('the texts were not read in time')
}

/** Returns the document as an admin sees it, with the bytes of every version. */
async function stateOf({ caller }: FaultRun, id: string): Promise<State> {
  const get = (path: string) => caller.call('GET', path, { what: 'look' })
  const answer = await get(`/api/documents/${id}`)
  if (answer.status === 404) return { where: 'gone', versions: {}, displayed: '', text: '' }
  const { deleted_at, content = '' } = JSON.parse(answer.body.toString()) as { deleted_at?: string | null; content?: string }
  const list = JSON.parse((await get(`/api/documents/${id}/versions`)).body.toString()) as {
    versions: { number: number; sha256: string }[]
  }
  const versions: Record<string, string> = {}
  for (const { number, sha256 } of list.versions) {
    const { status, body } = await get(`/api/documents/${id}/versions/${number}/download`)
    versions[number] = status === 200 && sha256Of(body) === sha256 ? sha256 : `lost (${status})`
  }
  const displayed = await caller.download(id)
  return { where: deleted_at ? 'trash' : 'live', versions, displayed: sha256Of(displayed.body), text: content }
}

/** Records the current state of a document for the audit. */
async function note(faultRun: FaultRun, id: string): Promise<void> {
  const { ledger } = faultRun
  const { where, displayed: shown } = await stateOf(faultRun, id)
  const known = ledger.uploads.get(id)
  if (where !== 'live') ledger.deleted.add(id)
  if (known && known.sha256 !== shown) ledger.uploads.set(id, { ...known, sha256: shown, word: null })
}

/** Folder of the sources. */
async function makeFolder({ folder }: Installation): Promise<string> {
  const path = join(folder, 'shares')
  await mkdir(path)
  return path
}

/** Creates a source whose files were overwritten and increased after `before`. */
async function makeEncryptedSource(installation: Installation, { caller }: FaultRun, root: string) {
  const name = `share-${randomBytes(4).toString('hex')}`
  const folder = join(root, name)
  await mkdir(folder)
  const fill = (prefix: string) => Promise.all([1, 2, 3].map((at) => writeFile(join(folder, `${prefix}${at}.bin`), randomBytes(3000))))
  const sync = async () => {
    const env = { DMS_SOURCES_LOCAL_ROOTS: root, DMS_STORAGE_MIN_FREE: '0' }
    const { code, stderr } = await runDms(['sources', 'sync', name, '--data-dir', installation.dataDir], { env, timeout: 180_000 })
    if (code !== 0) throw new Error(`sources sync ended with ${code}: ${stderr}`)
  }
  await fill('a')
  const made = await caller.call('POST', '/api/sources', caller.json({ name, type: 'local_folder', url: folder, sync_interval: 0 }))
  const { id } = JSON.parse(made.body.toString()) as { id: string }
  const documentsOf = async () =>
    (await installation.query<{ id: string }>(`select id from documents where source_id = '${id}' order by id`)).map((row) => row.id)
  await sync()
  const documents = await documentsOf()
  const [row] = await installation.query<{ now: Date }>('select clock_timestamp() as now')
  await sleep(20)
  await fill('a')
  await fill('b')
  await sync()
  const added = (await documentsOf()).filter((each) => !documents.includes(each))
  return { id, documents, added, before: row?.now.toISOString() ?? '' }
}

/** Kills the worker while it removes the bytes of destroyed documents. Bytes of other versions must stay. */
async function killPurges(installation: Installation, faultRun: FaultRun, take: () => string, isShort: boolean): Promise<number> {
  const { caller, expect } = faultRun
  const points: readonly CrashPoint[] = isShort
    ? [{ call: 'unlink', at: 1, moment: 'after' }]
    : ['unlink', ...rows].flatMap((call) =>
        bothMoments.flatMap((moment) => Array.from({ length: 8 }, (_, at) => ({ call, at: at + 1, moment }))),
      )
  const startWorker = (): Promise<RunningProcess> => installation.startWorker({ env: oneFileThread })
  let worker = await startWorker()
  let kills = 0
  const isPurged = async () => {
    const [row] = await installation.query<{ left: number }>(
      `select count(*)::int as left from jobs where kind = 'purge' and status in ('pending', 'processing')`,
    )
    return row?.left === 0
  }
  for (const point of points) {
    const [gone, other] = [take(), take()]
    // Two documents have a version with these bytes; one of them is destroyed.
    for (const id of [gone, other]) {
      const form = new FormData()
      form.set('file', new Blob([nameOf(point)]), 'shared.txt')
      await caller.call('PUT', `/api/documents/${id}/file`, { what: 'replace', body: form })
    }
    const before = await stateOf(faultRun, other)
    const isDead = await crashAt(worker, point, async () => {
      await caller.call('DELETE', `/api/documents/${gone}?permanent=true`, { what: 'destroy' })
      for (let round = 0; round < 600 && worker.isRunning() && !(await isPurged()); round++) await sleep(100)
      return worker.isRunning()
    })
    kills += Number(isDead)
    if (isDead) worker = await startWorker()
    const after = await stateOf(faultRun, other)
    expect(
      count(before) === count(after) && includes(after, before),
      `purge, ${nameOf(point)}: another document lost bytes: ${JSON.stringify({ before, after })}`,
    )
    faultRun.ledger.deleted.add(gone)
    await note(faultRun, other)
  }
  await worker.kill()
  return kills
}

/** Checks tables: every document agrees with its current version, and old versions keep their texts. */
async function expectConsistent({ query }: Installation, { expect }: FaultRun): Promise<void> {
  const mismatches = await query<{ id: string }>(`
    select document.id from documents document
    left join document_versions version on version.document_id = document.id and version.number = document.current_version
    where version.sha256 is distinct from document.sha256 or version.size is distinct from document.size or version.content is not null
      or document.last_version < document.current_version
    union select document_id from document_versions version join documents document on document.id = version.document_id
    where version.number <> document.current_version and version.content is null
    union select document_id from version_pages page where exists (
      select from documents document where document.id = page.document_id and document.current_version = page.number)`)
  expect(
    mismatches.length === 0,
    `${mismatches.length} documents disagree with their versions: ${mismatches.slice(0, 3).map(({ id }) => id)}`,
  )
}
