/**
 * Reads collections of real documents with the real server, from upload to search. npm run test:corpus -- FOLDER [--only NAME]… [--short] [--engine
 * tesseract-js|tesseract-native] [--stall-timeout SECONDS] FOLDER holds the collections that test/corpus/folders.ts names; without it, reads only the
 * generated collections. Exits with 1 when a document has no end or fails without a code, when less is read than there, when a word that was read is
 * not found, or when processes, files or memory remain.
 */
import { access, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import { expectedWords, missedWords, notFoundFirst, rareWords } from './corpus/find-words.ts'
import { documentsOf, type Folder, folders, sampleOf } from './corpus/folders.ts'
import { type FolderRead, readFolder } from './corpus/read-folder.ts'
import { type Watch, watch } from './corpus/watch.ts'
import { recall, truthOf } from './corpus/words.ts'
import { type Served, startServed } from './support/servers/served.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    only: { type: 'string', multiple: true },
    short: { type: 'boolean', default: false },
    engine: { type: 'string', default: 'auto' },
    'stall-timeout': { type: 'string', default: '600' },
  },
})
const root = resolve(positionals[0] ?? 'corpus')
/** sizes of a short run, which ends within three minutes */
const filesOfShort = 40
/** Maximum memory in bytes of the server and of a reader process. The limit of a reader process is checked twice a second. */
const maxMemoryBytes = { server: 500e6, reader: 1600e6 }
/** milliseconds after which an idle reader process has ended */
const idleTimeout = 75_000

const print = (line: string) => process.stdout.write(`${line}\n`)
const problems: string[] = []

const isThere = await access(root).then(
  () => true,
  () => false,
)
if (!isThere) print(`there is no folder ${root}: only the collections that are made here`)
const madeRoot = await mkdtemp(join(tmpdir(), 'dms-corpus-'))
try {
  await run()
} finally {
  await rm(madeRoot, { recursive: true, force: true })
}

async function run(): Promise<void> {
  const selected = folders.filter(({ name }) => !values.only || values.only.includes(name))
  const served = await startServed({ env: { DMS_OCR_ENGINE: values.engine } })
  try {
    const watching = watch(served)
    const table = new Table({
      head: [
        'folder',
        'files',
        'completed',
        'failed',
        'word recall',
        'found by search',
        'by three rare words',
        'pages',
        'pages/min',
        'slowest',
      ],
      style: { head: [], border: [] },
    })
    for (const folder of selected) {
      const row = await readAndCheck(served, folder, Math.floor(filesOfShort / selected.length))
      if (row) table.push(row)
    }
    print(table.toString())
    await checkRest(served, watching)
  } finally {
    await served.stop()
    await served.remove()
  }
  problems.push(...served.errors.map((line) => `the server logged ${line}`))
  for (const problem of problems) print(`✗ ${problem}`)
  print(problems.length === 0 ? 'all as it should be' : `${problems.length} problems`)
  process.exitCode = problems.length === 0 ? 0 : 1
}

function rootOf({ make }: Folder): string {
  return make ? madeRoot : root
}

async function readAndCheck(served: Served, folder: Folder, sample: number): Promise<string[] | null> {
  if (folder.make) {
    await mkdir(join(madeRoot, folder.name))
    await folder.make(join(madeRoot, folder.name))
  }
  const all = await documentsOf(rootOf(folder), folder)
  if (all.length === 0) {
    print(`${folder.name}: not there, skipped`)
    return null
  }
  const truths = await truthsOf(folder, all)
  const paths = values.short ? sampleOf(all, sample, (path) => truths.has(path)) : all
  print(`${folder.name}: reading ${paths.length} files`)
  const result = await readFolder(served.client, rootOf(folder), folder, paths, Number(values['stall-timeout']) * 1000)
  for (const [path, answer] of result.refused) problems.push(`${folder.name}/${path}: refused with ${answer}`)
  for (const path of result.unfinished) problems.push(`${folder.name}/${path}: no end within ${values['stall-timeout']} s`)
  for (const { path, document } of result.read) {
    if (document.status !== 'failed') continue
    print(`  ${path}: ${document.error?.code}: ${document.error?.message}`)
    if (!document.error?.code) problems.push(`${folder.name}/${path}: failed without a code`)
  }
  return [
    folder.name,
    String(paths.length),
    String(result.read.filter(({ document }) => document.status === 'completed').length),
    failures(result),
    checkRecall(folder, result, truths),
    await checkSearch(served, folder, result, truths),
    await checkRareWords(served, folder, result, truths),
    String(pagesOf(result)),
    ((pagesOf(result) * 60) / result.seconds).toFixed(0),
    slowest(result),
  ]
}

function pagesOf({ read }: FolderRead): number {
  return read.reduce((sum, { document }) => sum + (document.page_count ?? 0), 0)
}

function failures({ read }: FolderRead): string {
  const codes = Map.groupBy(
    read.filter(({ document }) => document.status === 'failed'),
    ({ document }) => document.error?.code ?? 'no code',
  )
  return [...codes].map(([code, { length }]) => `${length} ${code}`).join('\n') || '0'
}

function slowest({ read }: FolderRead): string {
  const last = read.toSorted((a, b) => (b.seconds ?? 0) - (a.seconds ?? 0))[0]
  return last ? `${last.seconds?.toFixed(1)} s ${basename(last.path)}` : ''
}

/** Sorts by path. */
async function truthsOf(folder: Folder, paths: readonly string[]): Promise<Map<string, string>> {
  const truths = new Map<string, string>()
  if (!folder.recall) return truths
  for (const path of paths) {
    const truth = await truthOf(resolve(rootOf(folder), folder.name, path))
    if (truth !== null) truths.set(path, truth)
  }
  return truths
}

function isUnreadable(withoutModel: readonly string[] = [], { path, document }: FolderRead['read'][number]): boolean {
  return withoutModel.includes(basename(path)) && document.warnings.some(({ code }) => code === 'language_missing')
}

function checkRecall(
  { name, recall: floor, hard, withoutModel }: Folder,
  { read }: FolderRead,
  truths: ReadonlyMap<string, string>,
): string {
  const known = read.filter((one) => truths.has(one.path) && !isUnreadable(withoutModel, one))
  if (!floor || known.length === 0) return ''
  const total = { found: 0, written: 0 }
  let least = { share: 1, path: '' }
  for (const { path, document } of known) {
    const { found, written } = recall(truths.get(path) ?? '', document.content ?? '')
    const isHard = hard?.[basename(path)] !== undefined
    if (!isHard && found < written * floor.each)
      problems.push(`${name}/${path}: ${share(found, written)} of ${written} words read, wanted ${floor.each}`)
    if (found < written * least.share) least = { share: found / written, path }
    total.found += found
    total.written += written
  }
  // A sample may contain mostly difficult files.
  if (!values.short && total.found < total.written * floor.all)
    problems.push(`${name}: ${share(total.found, total.written)} of all words read, wanted ${floor.all}`)
  const worst = least.path === '' ? '' : `\nleast ${least.share.toFixed(3)}: ${basename(least.path)}`
  return `${share(total.found, total.written)} of ${total.written} in ${known.length} files${worst}`
}

function share(part: number, whole: number): string {
  return (part / whole).toFixed(3)
}

async function checkSearch(
  { client }: Served,
  { name }: Folder,
  { read }: FolderRead,
  truths: ReadonlyMap<string, string>,
): Promise<string> {
  const expected = read.map(({ path, document }) => ({
    documentId: document.id,
    words: expectedWords(document.content ?? '', truths.get(path) ?? null),
  }))
  const missed = await missedWords(client, expected)
  for (const [documentId, words] of Map.groupBy(missed, (miss) => miss.documentId)) {
    const path = read.find(({ document }) => document.id === documentId)?.path
    problems.push(`${name}/${path}: not found by ${words.map(({ word }) => word).join(' ')}`)
  }
  const count = expected.reduce((sum, { words }) => sum + words.length, 0)
  return `${count - missed.length} of ${count}`
}

/** Returns the files with expected words. A file that was not read lowers the recall too. */
async function checkRareWords(
  { client }: Served,
  { name, rareWords: floor, hard, withoutModel }: Folder,
  { read }: FolderRead,
  truths: ReadonlyMap<string, string>,
): Promise<string> {
  const known = read.filter((one) => truths.has(one.path) && !hard?.[basename(one.path)] && !isUnreadable(withoutModel, one))
  if (floor === undefined || known.length === 0) return ''
  const expected = known.map(({ path, document }) => ({
    documentId: document.id,
    sameText: new Set(known.filter((other) => truths.get(other.path) === truths.get(path)).map((other) => other.document.id)),
    words: rareWords(truths.get(path) ?? '', [...truths.values()]),
  }))
  const missed = await notFoundFirst(client, expected)
  for (const { documentId, word } of missed)
    print(`  ${known.find(({ document }) => document.id === documentId)?.path}: not among the first for ${word}`)
  const found = known.length - missed.length
  if (!values.short && found < floor * known.length)
    problems.push(`${name}: ${share(found, known.length)} of ${known.length} files found by three rare words, wanted ${floor}`)
  return `${found} of ${known.length}`
}

async function checkRest(served: Served, watching: Watch): Promise<void> {
  const busy = watching.readers()
  if (!values.short) {
    const end = performance.now() + idleTimeout
    while (watching.readers() > 0 && performance.now() < end) await sleep(500)
    if (watching.readers() > 0) problems.push(`${watching.readers()} reading processes remain after ${idleTimeout / 1000} s without work`)
  }
  const idle = watching.readers()
  const peaks = watching.peaks()
  if (peaks.reader === 0) problems.push('no reading process was ever seen')
  const code = await served.stop()
  if (code !== 0) problems.push(`the server ended with ${code}`)
  const leftovers = await watching.leftovers()
  problems.push(...leftovers.map((leftover) => `left behind: ${leftover}`))
  for (const [who, bytes] of Object.entries(peaks)) {
    if (bytes > maxMemoryBytes[who as keyof typeof peaks]) problems.push(`the ${who} held ${megabytes(bytes)} at its peak`)
  }
  print(
    `reading processes: ${busy} after the last document, ${idle} when idle; ${leftovers.length} processes and files left after the stop`,
  )
  print(`memory at the peak: server ${megabytes(peaks.server)}, one reading process ${megabytes(peaks.reader)}`)
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(0)} MB`
}
