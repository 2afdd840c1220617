/** Checks the invariants after every fault by tables, folders and answers only, independently of the code under test. */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Caller, commonWord, sha256Of } from './caller.ts'
import type { Installation } from './installation.ts'
import type { Ledger } from './ledger.ts'

export interface AuditResult {
  /** acknowledged documents that are missing or have other bytes */
  lost: number
  /** rows without files, files without rows, unfinished work */
  half: number
  /** duplicates */
  duplicate: number
  problems: string[]
}

export interface AuditOptions {
  /** maximum milliseconds until the next job ends */
  timeoutMs?: number
  /** folder of stored files, if it is not below the data folder */
  files?: string
  /** lists sizes of stored files by address, and unneeded files; for files outside of one folder */
  list?: () => Promise<{ sizes: Map<string, number>; abandoned: string[] }>
}

const migrations = new URL('../../migrations/', import.meta.url)

/** Checks all invariants. A server with a worker must be running. */
export async function audit(
  installation: Installation,
  caller: Caller,
  ledger: Ledger,
  { timeoutMs = 60_000, files, list }: AuditOptions = {},
): Promise<AuditResult> {
  const found: AuditResult = { lost: 0, half: 0, duplicate: 0, problems: [] }
  const add = (kind: 'lost' | 'half' | 'duplicate', invariant: string, mismatches: readonly unknown[], says: string) => {
    found[kind] += mismatches.length
    if (mismatches.length > 0)
      found.problems.push(`${invariant} ${mismatches.length} ${says}: ${mismatches.slice(0, 3).map(String).join(', ')}`)
  }
  const root = files ?? join(installation.dataDir, 'files')

  add('half', 'I4', await findUnfinished(installation, timeoutMs), 'documents without an end')
  add('lost', 'I1', await findDamaged(caller, ledger), 'acknowledged uploads that do not come back as they were')
  const { rowless, fileless, staged } = list
    ? await compareList(installation, list, timeoutMs)
    : await compareFiles(installation, root, timeoutMs)
  add('half', 'I2', fileless, 'rows without their whole file')
  add('half', 'I3', rowless, 'files without a row')
  add('half', 'I3', staged, 'files that were left on their way')
  for (const { kind, invariant, says, text } of invariants)
    add(
      kind,
      invariant,
      (await installation.query<{ id: string }>(text)).map(({ id }) => id),
      says,
    )
  add('duplicate', 'I6', await findWrongViewCounts(installation, ledger), 'shared links whose views were counted wrongly')
  add(
    'half',
    'I7',
    await findSearchFaults(caller, ledger),
    'documents that are not found by their word, or found though they are not there',
  )
  add('half', 'I10', await findWrongCounts(installation, caller), 'counters that differ from a recount')
  add('half', 'I12', await findSchemaDifferences(installation), 'migrations missing or unknown')
  for (const problem of ledger.problems) found.problems.push(`I11 ${problem}`)
  return found
}

/** Returns unfinished work after `timeoutMs` without progress. Thousands of documents may take longer in total. */
async function findUnfinished({ query }: Installation, timeoutMs: number): Promise<string[]> {
  const open = () =>
    query<{ id: string }>(`
      select id::text || ' ' || status as id from live_documents where status not in ('completed', 'failed')
      union all select kind || ' job ' || id || ' ' || coalesce(error_message, '') from jobs where status in ('pending', 'processing')`)
  let remaining = await open()
  let fewest = remaining.length
  for (let end = performance.now() + timeoutMs; remaining.length > 0 && performance.now() < end; remaining = await open()) {
    if (remaining.length < fewest) {
      fewest = remaining.length
      end = performance.now() + timeoutMs
    }
    await sleep(250)
  }
  return remaining.map(({ id }) => id)
}

async function findDamaged(caller: Caller, { uploads, deleted }: Ledger): Promise<string[]> {
  const mismatches: string[] = []
  for (const [id, { sha256 }] of uploads) {
    if (deleted.has(id)) continue
    const { status, body } = await caller.download(id)
    if (status !== 200 || sha256Of(body) !== sha256) mismatches.push(`${id} (${status})`)
  }
  return mismatches
}

/** Compares rows with files. Uncommitted files have a marker until a worker has checked them, at its start and then every minute. */
async function compareFiles({ query }: Installation, root: string, timeoutMs: number) {
  const end = performance.now() + timeoutMs
  for (;;) {
    const names = await listFileNames(root)
    const rows = await query<{ sha256: string; address: string; size: number }>('select sha256, address, size::int from stored_files')
    const requested = await query<{ address: string }>('select address from file_removals')
    const known = new Set([...rows, ...requested].map(({ address }) => address))
    const notes = await readMarkers(root)
    const rowless = names.filter((name) => isAddress.test(name) && !known.has(name) && !notes.includes(name))
    const staged = names.filter((name) => name.endsWith('.part'))
    if ((rowless.length > 0 || staged.length > 0) && performance.now() < end) {
      await sleep(250)
      continue
    }
    const fileless: string[] = []
    for (const { sha256, address, size } of rows) {
      const path = join(root, sha256.slice(0, 2), sha256.slice(2, 4), address)
      const length = await stat(path).then(
        (seen) => seen.size,
        () => -1,
      )
      if (length !== size || (await hashOf(path)) !== sha256) fileless.push(`${sha256} (${length} of ${size} bytes)`)
    }
    return { rowless, fileless, staged }
  }
}

/** Compares rows with a list of stored files. Their bytes were downloaded before. */
async function compareList({ query }: Installation, list: NonNullable<AuditOptions['list']>, timeoutMs: number) {
  for (const end = performance.now() + timeoutMs; ; await sleep(1000)) {
    const rows = await query<{ address: string; size: number }>('select address, size::int from stored_files')
    const requested = await query<{ address: string }>('select address from file_removals')
    const { sizes, abandoned } = await list()
    const known = new Set([...rows, ...requested].map(({ address }) => address))
    const rowless = [...sizes.keys()].filter((address) => !known.has(address))
    const fileless = rows
      .filter(({ address, size }) => sizes.get(address) !== size)
      .map(({ address }) => `${address} (${sizes.get(address)})`)
    const isClean = rowless.length + fileless.length + abandoned.length === 0
    if (isClean || performance.now() > end) return { rowless, fileless, staged: abandoned }
  }
}

const isAddress = /^[0-9a-f]{64}(\.[0-9a-z]{8,32})?$/

async function listFileNames(root: string): Promise<string[]> {
  const all = await readdir(root, { recursive: true, withFileTypes: true })
  return all.filter((entry) => entry.isFile()).map(({ name }) => name)
}

/** Returns the markers of uncommitted files: one address in the name, further ones in the lines of the file. */
async function readMarkers(root: string): Promise<string> {
  const names = (await listFileNames(root)).filter((name) => name.endsWith('.named'))
  const lines = await Promise.all(names.map((name) => readFile(join(root, '.tmp', name), 'utf8').catch(() => '')))
  return [...names, ...lines].join('\n')
}

/** Returns the unneeded files and markers that remain after the start of a worker. */
export async function listUncommitted({ query, dataDir }: Installation, timeoutMs: number): Promise<string[]> {
  for (const end = performance.now() + timeoutMs; ; await sleep(500)) {
    const names = await listFileNames(join(dataDir, 'files'))
    const known = new Set((await query<{ address: string }>('select address from stored_files')).map(({ address }) => address))
    const remaining = names.filter((name) => (isAddress.test(name) && !known.has(name)) || name.endsWith('.named'))
    if (remaining.length === 0 || performance.now() > end) return remaining
  }
}

async function hashOf(path: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer)
  return hash.digest('hex')
}

const invariants = [
  {
    kind: 'half',
    invariant: 'I2',
    says: 'documents without a row of their bytes',
    text: 'select id from documents d where not exists (select from stored_files f where f.sha256 = d.sha256 and f.size = d.size)',
  },
  {
    kind: 'duplicate',
    invariant: 'I5',
    says: 'documents with more than one job that reads them',
    // A document whose file was replaced has one job for each version; the job of an earlier version had ended by then, or was cancelled.
    text: `select d.id from documents d join jobs j on j.document_id = d.id
      where j.kind in ('ocr', 'extract') and j.status in ('pending', 'processing', 'completed')
        and coalesce(j.finished_at, 'infinity') > coalesce(d.file_replaced_at, '-infinity') group by 1 having count(*) > 1`,
  },
  {
    kind: 'duplicate',
    invariant: 'I5',
    says: 'documents whose owner was told twice',
    text: `select data ->> 'document_id' as id from notifications where type in ('ocr_completed', 'ocr_failed') group by 1 having count(*) > 1`,
  },
  { kind: 'duplicate', invariant: 'I5', says: 'jobs tried too often', text: 'select id from jobs where attempts > max_attempts' },
  {
    kind: 'duplicate',
    invariant: 'I5',
    says: 'requests that were kept twice',
    text: 'select sha256 as id from documents group by owner_id, sha256 having count(*) > 1',
  },
  {
    kind: 'duplicate',
    invariant: 'I8',
    says: 'files of sources that are there twice',
    text: `select source_path as id from documents where source_id is not null group by source_id, source_path having count(*) > 1`,
  },
  {
    kind: 'half',
    invariant: 'I7',
    says: 'documents of which the index knows nothing',
    text: 'select id from live_documents where id not in (select document_id from search_entries)',
  },
  {
    kind: 'half',
    invariant: 'I7',
    says: 'entries of documents that are gone',
    text: 'select distinct document_id as id from search_entries where document_id not in (select id from live_documents)',
  },
] as const

async function findWrongViewCounts({ query }: Installation, { links }: Ledger): Promise<string[]> {
  if (links.length === 0) return []
  const rows = await query<{ token: string; views: number }>('select token, view_count::int as views from shared_links')
  const views = new Map(rows.map(({ token, views: count }) => [token, count]))
  return links
    .filter(({ token, maxViews, delivered: given, unknown }) => {
      const counted = views.get(token) ?? -1
      return counted < given || counted > Math.min(maxViews, given + unknown)
    })
    .map(({ token, delivered: given, unknown }) => `${token}: ${views.get(token)} counted, ${given} given, ${unknown} unknown`)
}

/** Checks that each document is found by its own word, and that the common word finds no deleted document. Takes a sample of many documents. */
async function findSearchFaults(caller: Caller, { uploads, deleted }: Ledger): Promise<string[]> {
  const words = [...uploads].flatMap(([id, { word }]) => (word === null || deleted.has(id) ? [] : [{ id, word }]))
  const step = Math.ceil(words.length / 100)
  const mismatches: string[] = []
  const ids = (answer: Buffer) =>
    (JSON.parse(answer.toString()) as { results: { document_id: string }[] }).results.map((one) => one.document_id)
  for (const { id, word } of words.filter((_, index) => index % step === 0)) {
    const { status, body } = await caller.call('GET', `/api/search?q=${word}`, { what: 'search' })
    if (status !== 200 || ids(body).join() !== id) mismatches.push(`${id} by ${word} (${status})`)
  }
  const { status, body } = await caller.call('GET', `/api/search?q=${commonWord}&per_page=100`, { what: 'search' })
  if (status === 200) for (const id of ids(body)) if (deleted.has(id)) mismatches.push(`${id} is deleted`)
  return mismatches
}

async function findWrongCounts({ query }: Installation, caller: Caller): Promise<string[]> {
  const mismatches: string[] = []
  const reported = JSON.parse((await caller.call('GET', '/api/ocr/queue/status', { what: 'queue' })).body.toString()) as Record<
    string,
    number
  >
  const [counted] = await query<Record<string, number>>(`select count(*) filter (where status = 'pending')::int as pending,
    count(*) filter (where status = 'processing')::int as processing from jobs where kind in ('ocr', 'extract')`)
  for (const key of ['pending', 'processing'])
    if (reported[key] !== counted?.[key]) mismatches.push(`queue ${key}: ${reported[key]} told, ${counted?.[key]} counted`)
  const labels = JSON.parse((await caller.call('GET', '/api/labels', { what: 'labels' })).body.toString()) as {
    labels?: { id: string; document_count: number }[]
  }
  for (const { id, document_count } of labels.labels ?? []) {
    const [row] = await query<{ count: number }>(`select count(*)::int as count from document_labels where label_id = '${id}'`)
    if (row?.count !== document_count) mismatches.push(`label ${id}: ${document_count} told, ${row?.count} counted`)
  }
  const list = JSON.parse((await caller.list()).body.toString()) as { pagination: { total: number } }
  const [documents] = await query<{ count: number }>('select count(*)::int as count from live_documents')
  if (list.pagination.total !== documents?.count) mismatches.push(`documents: ${list.pagination.total} told, ${documents?.count} counted`)
  return mismatches
}

async function findSchemaDifferences({ query }: Installation): Promise<string[]> {
  const expected = (await readdir(migrations)).map((name) => name.replace(/\.ts$/, ''))
  const applied = (await query<{ name: string }>('select name from migrations')).map(({ name }) => name)
  return [...expected.filter((name) => !applied.includes(name)), ...applied.filter((name) => !expected.includes(name))]
}
