import { mkdir, stat } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { type Command, Option } from 'commander'
import { errorColumn } from '../src/cli/batch.ts'
import type { Cli } from '../src/cli/context.ts'
import { Failure, usage } from '../src/cli/exit.ts'
import { idOf, idsFrom } from '../src/cli/ids.ts'
import { manual } from '../src/cli/manual.ts'
import { checkSame, copy, type Expected, exists, safeName, saveFile } from '../src/cli/save-file.ts'
import { workThrough } from '../src/cli/work-through.ts'
import type { Client } from '../src/client/client.ts'

interface Flags {
  to?: string
  name: 'original' | 'id' | 'title'
  clobber?: boolean
  skipExisting?: boolean
}

/** Where it goes: a folder, in which names are chosen, or one file. */
type Target = { folder: string } | { file: string }

export const documentsDownload = (cli: Cli): Command =>
  manual('download <id...>', {
    summary: 'Fetch the files of documents.',
    examples: [
      ['documents download 0192f0c1-…', 'into this folder, under the name it was uploaded with'],
      ['documents download 0192f0c1-… --to contract.pdf', 'under this name'],
      ['dms documents list --label q4 -o id | dms documents download - --to out/', 'many, into a folder'],
      ['documents download 0192f0c1-… --to - | pdftotext - -', 'into a pipe'],
    ],
    exits: '0 there · 3 some could not be fetched · 6 no such document · 7 a file of that name exists · 69 unreachable',
    notes: [
      'A file appears whole or not at all, and only after its size and SHA-256 were checked. Names are made safe: no folders, no leading',
      'dots or dashes, no control characters.',
    ],
  })
    .option('--to <place>', 'file, folder, or - for standard output (default: this folder)')
    .addOption(new Option('--name <what>', 'names of files in a folder').choices(['original', 'id', 'title']).default('original'))
    .addOption(new Option('--clobber', 'replace files that exist').conflicts('skipExisting'))
    .option('--skip-existing', 'leave files that exist, and do not fail')
    .action(async (given: string[], flags: Flags) => {
      const ids = await idsFrom(given)
      if (flags.to === '-') return toPipe(cli, ids)
      const target = await targetOf(flags.to ?? '.', ids.length)
      const client = await cli.client()
      const taken = new Set<string>()
      await workThrough(cli, {
        command: 'documents download',
        phase: 'download',
        things: ids,
        keyOf: (id) => id,
        columns: [{ name: 'action' }, { name: 'id' }, { name: 'path' }, { name: 'bytes' }, { name: 'sha256' }, errorColumn],
        totalBytes: null,
        run: (id, moved) => download(client, idOf(id, 'document'), target, flags, taken, moved),
      })
    })

/** `taken`: the paths that this run has used; two documents of one name never replace each other. */
async function download(client: Client, id: string, target: Target, flags: Flags, taken: Set<string>, moved: (bytes: number) => void) {
  const response = await client.documents.download(id)
  try {
    const path = 'file' in target ? target.file : join(target.folder, await nameOf(client, id, response, flags))
    const isThere = await stat(path).then(
      () => true,
      () => false,
    )
    if (taken.has(path)) throw new Failure('CONFLICT', `${path} is another document of this download`, { fix: 'pass --name id' })
    if (isThere && flags.skipExisting) return { action: 'skipped', key: id, id, path }
    if (isThere && !flags.clobber) throw exists(path)
    taken.add(path)
    const saved = await saveFile(bodyOf(response), path, expectedOf(response), flags.clobber === true, moved)
    return { action: 'created', key: id, id, path, ...saved }
  } finally {
    await response.body?.cancel().catch(() => {})
  }
}

async function toPipe(cli: Cli, ids: readonly string[]): Promise<void> {
  const [id = ''] = ids
  if (ids.length !== 1) throw usage('--to - takes one document')
  if (cli.options.isTerminal) throw usage('the bytes of a file would go to this terminal', 'send the output to a file or a program')
  const client = await cli.client()
  const response = await client.documents.download(idOf(id, 'document'))
  const saved = await copy(bodyOf(response), (chunk) => {
    cli.signal.throwIfAborted()
    return written(chunk)
  })
  checkSame(saved, expectedOf(response))
}

/** Resolves when the reader of the pipe has taken it. */
const written = (chunk: Uint8Array): Promise<void> =>
  new Promise((resolve, reject) => process.stdout.write(chunk, (error) => (error ? reject(error) : resolve())))

/** A folder is what is one already, what ends with a slash, and what several files go to; it is made where it is missing. */
async function targetOf(to: string, count: number): Promise<Target> {
  const about = await stat(to).catch(() => null)
  if (!about?.isDirectory() && !to.endsWith('/') && count === 1) return { file: to }
  await mkdir(to, { recursive: true }).catch((error: Error) => {
    throw usage(`--to ${to}: ${error.message}`)
  })
  return { folder: to }
}

async function nameOf(client: Client, id: string, { headers }: Response, { name }: Flags): Promise<string> {
  const original = safeName(await filenameIn(headers.get('content-disposition') ?? ''))
  if (name === 'original') return original
  const extension = extname(original)
  if (name === 'id') return `${id}${extension}`
  const { title } = await client.documents.get(id)
  return safeName(`${title.replaceAll(/[/\\]/g, '_')}${title.endsWith(extension) ? '' : extension}`)
}

async function filenameIn(header: string): Promise<string> {
  const { parse } = await import('content-disposition')
  try {
    return parse(header).parameters.filename ?? ''
  } catch {
    return ''
  }
}

/** What the server says that the file is; a proxy may have packed it, and then its length is not that of the file. */
function expectedOf({ headers }: Response): Expected {
  const digest = /sha-256=:([\w+/=]{44}):/.exec(headers.get('repr-digest') ?? '')?.[1]
  const length = headers.get('content-encoding') === null ? headers.get('content-length') : null
  return { size: length === null ? null : Number(length), sha256: digest ? Buffer.from(digest, 'base64').toString('hex') : null }
}

const bodyOf = ({ body }: Response): AsyncIterable<Uint8Array> => (body ?? []) as AsyncIterable<Uint8Array>
