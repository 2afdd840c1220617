import { lstat } from 'node:fs/promises'
import { join } from 'node:path'
import { Option } from 'commander'
import { parseCount } from '../../src/cli/arguments/flag-values.ts'
import { parseId, readIds } from '../../src/cli/arguments/ids.ts'
import { type BatchItem, errorColumn } from '../../src/cli/output/batch-output.ts'
import { manual } from '../../src/cli/output/manual.ts'
import { type Column, columnsOf } from '../../src/cli/output/output.ts'
import {
  bodyChunks,
  type DownloadTarget,
  expectedContent,
  parseFileName,
  rejectTerminal,
  resolveDownloadTarget,
  writeToStdout,
} from '../../src/cli/remote/download-target.ts'
import { fileExistsError, safeName, saveFile } from '../../src/cli/remote/save-file.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { Failure, usage } from '../../src/cli/runtime/exit.ts'
import { runBatch } from '../../src/cli/runtime/run-batch.ts'
import type { Client } from '../../src/client/client.ts'
import { extensionOf } from '../../src/documents/file-names.ts'
import { dms } from '../../src/log/fix.ts'

interface Flags {
  to?: string
  name: 'original' | 'id' | 'title'
  clobber?: boolean
  skipExisting?: boolean
  version?: string
  rendition?: 'pdfa'
}

const columns: Column<BatchItem>[] = [
  // A failed item has only the idArguments id.
  { name: 'id', value: ({ id, key }) => id ?? key },
  { name: 'path' },
  { name: 'bytes', align: 'right' },
  ...columnsOf(['sha256', 'action']),
  errorColumn,
]

export const download = (cli: Cli) =>
  manual('download <id...>', {
    summary: 'Download the files of documents',
    examples: [
      ['documents download 0192f0c1-…', 'to the current folder, under its original name'],
      ['documents download 0192f0c1-… --to contract.pdf', ''],
      ['dms documents list --label q4 -o id | dms documents download - --to out/', 'many documents, to a folder'],
      ['documents download 0192f0c1-… --to - | pdftotext - -', 'to a pipe'],
      ['documents download 0192f0c1-… --version 1', 'an earlier version (dms documents versions ID)'],
      ['documents download 0192f0c1-… --rendition pdfa', 'as searchable PDF/A (dms renditions make ID)'],
    ],
    exits:
      '0 downloaded · 3 some failed · 6 no such document, version or rendition · 7 file exists, or the rendition is not made · 69 server unreachable',
    notes: [
      'A file appears complete, after its size and SHA-256 were verified, or not at all. Slashes, control characters, and leading dots and dashes are replaced in file names.',
    ],
  })
    .option('--to <place>', 'file, folder, or - for standard output (default: current folder)')
    .addOption(new Option('--name <what>', 'file names in a folder').choices(['original', 'id', 'title']).default('original'))
    .addOption(new Option('--clobber', 'replace existing files').conflicts('skipExisting'))
    .option('--skip-existing', 'skip existing files')
    .addOption(new Option('--version <number>', 'version of a single document (default: current)').conflicts('rendition'))
    .addOption(new Option('--rendition <kind>', 'a rendition of the current version').choices(['pdfa']))
    .action(async (idArguments: string[], flags: Flags) => {
      const ids = await readIds(idArguments)
      if (flags.version !== undefined && ids.length !== 1) throw usage(`--version needs a single document, not ${ids.length}`)
      if (flags.to === '-') return downloadToStdout(cli, ids, flags)
      const target = await resolveDownloadTarget(flags.to ?? '.', ids.length)
      const client = await cli.client()
      const download = { client, flags, target, usedPaths: new Set<string>(), usedFiles: new Set<string | null>() }
      await runBatch(cli, {
        command: 'documents download',
        phase: 'download',
        items: ids,
        columns,
        totalBytes: null,
        run: (id, onBytes) => downloadDocument(download, parseId(id, 'document'), onBytes),
      })
    })

interface Download {
  readonly client: Client
  readonly flags: Flags
  readonly target: DownloadTarget
  /** Paths and files of this run: two documents never overwrite each other. A file system may ignore the case of names. */
  readonly usedPaths: Set<string>
  readonly usedFiles: Set<string | null>
}

/** Downloads one document. */
async function downloadDocument(
  { client, flags, target, usedPaths, usedFiles }: Download,
  id: string,
  onBytes: (bytes: number) => void,
): Promise<BatchItem> {
  const response = await fetchFile(client, id, flags)
  try {
    const path = 'file' in target ? target.file : join(target.folder, await fileName(client, id, response, flags))
    const existing = await fileAt(path)
    if (usedPaths.has(path) || (existing !== null && usedFiles.has(existing)))
      throw new Failure('CONFLICT', `${path} is the path of another document in this download`, { fix: 'pass --name id' })
    usedPaths.add(path)
    if (existing !== null) usedFiles.add(existing)
    if (existing !== null && flags.skipExisting) return { action: 'skipped', key: id, id, path }
    if (existing !== null && !flags.clobber) throw fileExistsError(path)
    const saved = await saveFile(bodyChunks(response), path, expectedContent(response), { canOverwrite: flags.clobber === true, onBytes })
    usedFiles.add(await fileAt(path))
    return { action: 'created', key: id, id, path, ...saved }
  } finally {
    await response.body?.cancel().catch(() => {})
  }
}

/** Identifies the file at the path, also by a name that differs in case only; null if there is none. */
const fileAt = (path: string): Promise<string | null> =>
  lstat(path).then(
    ({ dev, ino }) => `${dev} ${ino} ${path.normalize().toLowerCase()}`,
    () => null,
  )

async function fetchFile({ documents }: Client, id: string, { version, rendition }: Flags): Promise<Response> {
  if (version !== undefined) return documents.downloadVersion(id, parseCount('--version', version))
  const response = await documents.download(id, { rendition })
  if (response.status !== 202) return response
  await response.body?.cancel()
  throw new Failure('CONFLICT', 'the rendition is being made', { fix: ['retry later: ', dms`renditions status`] })
}

async function downloadToStdout(cli: Cli, ids: readonly string[], flags: Flags): Promise<void> {
  const [id = ''] = ids
  if (ids.length !== 1) throw usage(`--to - needs a single document, not ${ids.length}`)
  rejectTerminal(cli)
  const client = await cli.client()
  await writeToStdout(cli, await fetchFile(client, parseId(id, 'document'), flags))
}

async function fileName(client: Client, id: string, response: Response, { name }: Flags): Promise<string> {
  const original = safeName(await parseFileName(response))
  if (name === 'original') return original
  const extension = extensionOf(original)
  if (name === 'id') return `${id}${extension}`
  const { title } = await client.documents.get(id, { content: false })
  return safeName(`${title.replaceAll(/[/\\]/g, '_')}${title.endsWith(extension) ? '' : extension}`)
}

export const thumbnail = (cli: Cli) =>
  manual('thumbnail <id>', {
    summary: 'Download a WebP thumbnail of the first page',
    examples: [
      ['documents thumbnail 0192f0c1-…', 'to the current folder, as 0192f0c1-….webp'],
      ['documents thumbnail 0192f0c1-… --width 800 --height 800 --to page.webp', 'the largest size within 800 × 800'],
      ['documents thumbnail 0192f0c1-… --to - | img2sixel', 'to a pipe'],
    ],
    exits: '0 downloaded · 2 invalid size · 6 no such document, or no thumbnail · 7 file exists · 69 server unreachable',
  })
    .option('--width <pixels>', 'maximum width (up to 1000)', '200')
    .option('--height <pixels>', 'maximum height (up to 1000)', '200')
    .option('--to <place>', 'file, folder, or - for standard output', '.')
    .option('--clobber', 'replace an existing file')
    .action(async (documentId: string, flags: { width: string; height: string; to: string; clobber?: boolean }) => {
      const { width, height, to, clobber = false } = flags
      const id = parseId(documentId, 'document')
      const size = { width: parseCount('--width', width, { max: 1000 }), height: parseCount('--height', height, { max: 1000 }) }
      if (to === '-') rejectTerminal(cli)
      const client = await cli.client()
      const response = await client.documents.thumbnail(id, size)
      if (to === '-') return void (await writeToStdout(cli, response))
      const target = await resolveDownloadTarget(to, 1)
      const path = 'file' in target ? target.file : join(target.folder, `${id}.webp`)
      const { bytes } = await saveFile(bodyChunks(response), path, expectedContent(response), { canOverwrite: clobber })
      cli.print({ id, path, bytes }, { columns: columnsOf(['id', 'path', 'bytes']), sentence: `✓ ${path}` })
    })
