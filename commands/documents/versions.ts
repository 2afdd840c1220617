import { stat } from 'node:fs/promises'
import { basename } from 'node:path'
import { parseCount } from '../../src/cli/arguments/flag-values.ts'
import { parseId } from '../../src/cli/arguments/ids.ts'
import { manual } from '../../src/cli/output/manual.ts'
import { type Column, columnsOf } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'
import { openFile } from '../../src/cli/upload/send.ts'
import type { Client, Upload } from '../../src/client/client.ts'
import type { StoredVersion } from '../../src/client/documents.ts'

type Version = Awaited<ReturnType<Client['documents']['versions']>>[number]

const columns: Column<Version>[] = [
  { name: 'number', align: 'right' },
  { name: 'current', value: ({ current }) => (current ? 'current' : '') },
  ...columnsOf(['created_at', 'origin', 'size', 'filename', 'mime_type', 'sha256', 'created_by']),
]

export const versions = (cli: Cli) =>
  manual('versions <id>', {
    summary: 'List the versions of a document, newest first',
    examples: [
      ['documents versions 0192f0c1-…', ''],
      ['documents versions 0192f0c1-… -o json | jq -r .[0].sha256', 'for a script'],
    ],
    exits: '0 listed · 6 no such document · 69 server unreachable',
  }).action(async (documentId: string) => {
    const client = await cli.client()
    cli.print(await client.documents.versions(parseId(documentId, 'document')), { columns })
  })

export const replace = (cli: Cli) =>
  manual('replace <id> <file>', {
    summary: 'Replace the file of a document; keep the old version',
    examples: [
      ['documents replace 0192f0c1-… contract-signed.pdf', ''],
      ['scanimage --format=pdf | dms documents replace 0192f0c1-… - --stdin-name scan.pdf', 'from a pipe'],
    ],
    exits: '0 replaced, or unchanged · 2 no such file · 6 no such document · 69 server unreachable',
    notes: ['Title, labels, comments and links stay. A file with the same bytes as the current version changes nothing.'],
  })
    .option('--stdin-name <name>', 'file name for the content of standard input')
    .option('--language <codes>', 'languages: auto, eng, deu+eng (default: as before)')
    .option('--no-ocr', 'extract only text that the file contains')
    .action(async (documentId: string, path: string, flags: { stdinName?: string; language?: string; ocr: boolean }) => {
      const id = parseId(documentId, 'document')
      const file = await openUpload(path, flags.stdinName)
      const client = await cli.client()
      const { language, ocr: ocr_enabled } = flags
      printStored(cli, await client.documents.replace(id, file, { language, ocr_enabled, signal: cli.signal }))
    })

export const restore = (cli: Cli) =>
  manual('restore <id>', {
    summary: 'Restore an earlier version of a document',
    examples: [['documents restore 0192f0c1-… --version 1', 'adds a version with the file and the text of version 1']],
    exits: '0 restored, or unchanged · 6 no such document or version · 69 server unreachable',
  })
    .requiredOption('--version <number>', 'version to restore (dms documents versions ID)')
    .action(async (documentId: string, flags: { version: string }) => {
      const number = parseCount('--version', flags.version)
      const client = await cli.client()
      printStored(cli, await client.documents.restore(parseId(documentId, 'document'), number))
    })

function printStored(cli: Cli, { version, document, created }: StoredVersion): void {
  const sentence = created
    ? `✓ Version ${version.number} of "${document.title}"`
    : `✓ "${document.title}" has these bytes already (version ${version.number})`
  const result = { id: document.id, version: version.number, action: created ? 'created' : 'unchanged', sha256: version.sha256 }
  cli.print(result, { columns: columnsOf(['id', 'version', 'action', 'sha256']), sentence })
}

/** Opens a file or standard input for an upload. Throws Failure USAGE. */
async function openUpload(path: string, stdinName: string | undefined): Promise<Upload> {
  if (path === '-') {
    if (!stdinName) throw usage('the content of standard input has no name', 'pass --stdin-name')
    return { filename: stdinName, size: null, open: () => process.stdin }
  }
  const stats = await stat(path).catch((error: Error) => {
    throw usage(`${path}: ${error.message}`)
  })
  if (!stats.isFile()) throw usage(`${path} is not a file`)
  return { filename: basename(path), size: stats.size, open: () => openFile(path, stats.size), path }
}
