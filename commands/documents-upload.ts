import { randomUUID } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { basename } from 'node:path'
import { type Command, Option } from 'commander'
import type { Item } from '../src/cli/batch.ts'
import type { Cli } from '../src/cli/context.ts'
import { Failure, usage } from '../src/cli/exit.ts'
import { type FoundFile, findFiles, pathsFrom } from '../src/cli/find-files.ts'
import { manual } from '../src/cli/manual.ts'
import { clientThatWorks, readsHere, waitForDocuments } from '../src/cli/waiting.ts'
import { refusalsIn, workThrough } from '../src/cli/work-through.ts'
import type { Client, UploadOptions } from '../src/client/client.ts'
import type { DocumentView } from '../src/documents/view.ts'

interface Flags {
  recursive?: boolean
  include: string[]
  exclude: string[]
  followSymlinks?: boolean
  filesFrom?: string
  0?: boolean
  stdinName?: string
  label?: string
  title?: string
  language?: string
  ocr: boolean
  owner?: string
  onDuplicate: 'skip' | 'upload'
  concurrency: string
  wait?: boolean
  dryRun?: boolean
}

const several = (value: string, before: string[]): string[] => [...before, value]

export const documentsUpload = (cli: Cli): Command =>
  manual('upload [path...]', {
    summary: 'Upload files; those that are there already are left alone.',
    examples: [
      ['documents upload contract.pdf --label contracts', ''],
      ['documents upload -r /srv/scans --wait', 'everything below, until it is read'],
      ["documents upload -r . --include '*.pdf' --exclude drafts -n", 'what would be uploaded'],
      ['find . -mtime -1 -print0 | dms documents upload --files-from - -0', 'a list of paths'],
      ['scanimage --format=pdf | dms documents upload - --stdin-name scan.pdf', 'from a pipe'],
      ['documents upload report.pdf --owner ana -o id', 'for somebody else; prints the id'],
    ],
    exits:
      '0 all there · 3 some failed (with --wait also: could not be read) · 1 or a code of its own where all failed · 69 unreachable · 130 interrupted',
    notes: [
      'On the server itself documents belong to --owner, to --as, or else to the first admin.',
      'The first Ctrl-C ends after the files being sent. Files and folders inside folders whose names begin with a dot are passed over.',
      `With --wait: ${readsHere}`,
    ],
  })
    .option('-r, --recursive', 'folders, with everything below them')
    .option('--include <glob>', 'only files like this; again for more', several, [])
    .option('--exclude <glob>', 'not files or folders like this; again for more', several, [])
    .option('--follow-symlinks', 'follow links inside folders')
    .option('--files-from <file>', 'paths from this file, one a line; - reads standard input')
    .option('-0', 'paths of --files-from end with NUL')
    .option('--stdin-name <name>', 'file name for what - reads')
    .option('--label <labels>', 'put these labels on (names or ids, with commas)')
    .option('--title <title>', 'instead of the file name; for a single file')
    .option('--language <codes>', 'of the text, for OCR: eng, or deu+eng')
    .option('--no-ocr', 'take the text that the file itself carries, and no more')
    .option('--owner <user>', 'whom they belong to (user name, e-mail or id); for admins')
    .addOption(
      new Option('--on-duplicate <what>', 'when this owner has the same bytes already').choices(['skip', 'upload']).default('skip'),
    )
    .option('--concurrency <n>', 'files at once', '4')
    .option('--wait', 'until they are read')
    .option('-n, --dry-run', 'list the files, send nothing')
    .action(async (paths: string[], flags: Flags) => {
      const files = await filesOf(paths, flags)
      if (flags.title !== undefined && files.length !== 1) throw usage(`--title is for a single file, and these are ${files.length}`)
      if (flags.dryRun) return upload(cli, null, files, flags)
      await upload(cli, await (flags.wait ? clientThatWorks(cli, 'documents upload --wait') : cli.client()), files, flags)
    })

async function filesOf(paths: readonly string[], flags: Flags): Promise<FoundFile[]> {
  const { filesFrom, stdinName } = flags
  if (filesFrom === undefined && paths.length === 0) throw usage('nothing to upload', 'name files, or pass --files-from FILE')
  if (filesFrom === '-' && paths.includes('-')) throw usage('- and --files-from - cannot both read standard input')
  if (paths.includes('-')) {
    if (stdinName === undefined) throw usage('what comes from standard input needs a name', 'pass --stdin-name NAME')
    if (process.stdin.isTTY) throw usage('"-" reads a file from a pipe, and standard input is a terminal')
  }
  const options = {
    isRecursive: flags.recursive === true,
    followsLinks: flags.followSymlinks === true,
    include: flags.include,
    exclude: flags.exclude,
  }
  const listed = filesFrom === undefined ? [] : await pathsFrom(filesFrom, flags[0] === true)
  const files = await findFiles([...paths.filter((path) => path !== '-'), ...listed], options)
  return paths.includes('-') ? [{ path: '-', size: null }, ...files] : files
}

/** `client` null: a dry run. */
async function upload(cli: Cli, client: Client | null, files: readonly FoundFile[], flags: Flags): Promise<void> {
  const uploaded: Item[] = []
  const options = optionsOf(flags)
  await workThrough(cli, {
    command: 'documents upload',
    phase: 'upload',
    things: files,
    keyOf: ({ path }) => path,
    concurrency: concurrencyOf(flags),
    isDryRun: client === null,
    totalBytes: files.some(({ path }) => path === '-') ? null : files.reduce((sum, { size }) => sum + (size ?? 0), 0),
    async run(file, moved) {
      if (file.problem) throw file.problem
      if (!client) return { action: 'created', key: file.path, bytes: file.size ?? 0 }
      const item = await sendFile(client, file, options, flags.stdinName, moved)
      if (!flags.wait) return item
      uploaded.push(item)
      return null
    },
    afterwards: async (add, isReachable) => {
      if (client && isReachable && uploaded.length > 0) await addWhenRead(cli, client, uploaded, add)
      else for (const item of uploaded) add(item)
    },
  })
}

async function sendFile(
  client: Client,
  { path, size }: FoundFile,
  options: UploadOptions,
  stdinName: string | undefined,
  moved: (bytes: number) => void,
): Promise<Item> {
  let bytes = 0
  async function* open(): AsyncGenerator<Uint8Array> {
    // Another attempt sends everything again.
    moved(-bytes)
    bytes = 0
    for await (const chunk of path === '-' ? process.stdin : createReadStream(path, { highWaterMark: 1 << 18 })) {
      yield chunk
      bytes += chunk.length
      moved(chunk.length)
    }
  }
  const filename = path === '-' ? (stdinName ?? '') : basename(path)
  const { id, created } = await client.documents
    .upload({ filename, size, open, path }, { ...options, idempotencyKey: randomUUID() })
    .catch((error) => {
      const [refused] = refusalsIn(error)
      throw refused?.path === 'owner' && options.owner === undefined ? withoutOwner(refused.message) : error
    })
  return { action: created ? 'created' : 'unchanged', key: path, id, bytes }
}

/** At the shell of a server that has no first admin yet, documents would belong to nobody. */
const withoutOwner = (reason: string): Failure =>
  new Failure('USAGE', `whose documents are these? There is ${reason}`, { fix: 'pass --owner USER, or make one: dms users add' })

const optionsOf = ({ label, title, language, ocr, owner, onDuplicate }: Flags): UploadOptions => ({
  labels: label,
  title,
  language,
  ocr_enabled: ocr,
  owner,
  on_duplicate: onDuplicate === 'skip' ? 'return' : 'allow',
})

function concurrencyOf({ concurrency }: Flags): number {
  if (!/^([1-9]|[1-5]\d|6[0-4])$/.test(concurrency)) throw usage(`--concurrency ${concurrency}: a whole number from 1 to 64`)
  return Number(concurrency)
}

/** Adds each item once its document is read; those that are not when the command is stopped, as they are. */
async function addWhenRead(cli: Cli, client: Client, uploaded: readonly Item[], add: (item: Item) => void): Promise<void> {
  const waiting = new Map(Map.groupBy(uploaded, ({ id }) => id as string))
  try {
    await waitForDocuments(cli, client, [...waiting.keys()], (id, document) => {
      for (const item of waiting.get(id) ?? []) add({ ...item, ...outcomeOf(document) })
      waiting.delete(id)
    })
  } finally {
    for (const item of [...waiting.values()].flat()) add({ ...item, status: 'pending' })
  }
}

function outcomeOf(document: DocumentView | null): Partial<Item> {
  if (!document) return { action: 'failed', error: { code: 'DOCUMENT_NOT_FOUND', message: 'it was deleted meanwhile' } }
  const { status, error } = document
  return status === 'failed' ? { action: 'failed', status, ...(error ? { error } : {}) } : { status }
}
