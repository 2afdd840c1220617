import { stat } from 'node:fs/promises'
import type { Command } from 'commander'
import { durationOf } from '../../src/cli/arguments/duration.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'
import { holdFolders } from '../../src/cli/runtime/run-lock.ts'
import { clientThatWorks, readsHere } from '../../src/cli/runtime/waiting.ts'
import { type FoundFile, findFiles, pathsFrom } from '../../src/cli/upload/find-files.ts'
import { type UploadFlags, uploadingOf, withUploadFlags } from '../../src/cli/upload/flags.ts'
import { upload } from '../../src/cli/upload/upload.ts'
import { type Journal, journalPath, openJournal } from '../../src/cli/upload/upload-cache.ts'

interface Flags extends UploadFlags {
  recursive?: boolean
  filesFrom?: string
  0?: boolean
  stdinName?: string
  title?: string
  resume?: boolean
  wait?: boolean
  dryRun?: boolean
}

export const documentsUpload = (cli: Cli): Command =>
  withUploadFlags(
    manual('upload [path...]', {
      summary: 'Upload files; those that are there already are left alone.',
      examples: [
        ['documents upload contract.pdf --label contracts', ''],
        ['documents upload -r /srv/scans --wait', 'everything below, until it is read'],
        ["documents upload -r . --include '*.pdf' --exclude drafts -n", 'what would be uploaded'],
        ['documents upload -r /srv/scans --min-age 1m --after-upload move:/srv/done -q', 'from cron'],
        ['find . -mtime -1 -print0 | dms documents upload --files-from - -0', 'a list of paths'],
        ['scanimage --format=pdf | dms documents upload - --stdin-name scan.pdf', 'from a pipe'],
        ['documents upload report.pdf --owner ana -o id', 'for somebody else; prints the id'],
      ],
      exits:
        '0 all there · 3 some failed (with --wait also: could not be read) · 1 or a code of its own where all failed · 69 unreachable · 75 another run is at a folder (-r) · 130 interrupted',
      notes: [
        'On the server itself documents belong to --owner, to --as, or else to the first admin.',
        'The first Ctrl-C ends after the files being sent; the same command again sends the rest. Files and folders inside folders whose names begin with a dot are passed over.',
        'With -r one run at a time is at a folder; --lock-timeout waits for the other one.',
        'With -r the SHA-256 of files is noted below $XDG_STATE_HOME/dms/uploads, so that another run needs not read what has not changed; whether the server still has it is asked each time.',
        'Over a network, files under 8 MiB share requests, ten at a time.',
        `With --wait: ${readsHere}`,
      ],
    }),
  )
    .option('-r, --recursive', 'folders, with everything below them')
    .option('--files-from <file>', 'paths from this file, one a line; - reads standard input')
    .option('-0', 'paths of --files-from end with NUL')
    .option('--stdin-name <name>', 'file name for what - reads')
    .option('--title <title>', 'instead of the file name; for a single file')
    .option('--resume', 'use the notes of an earlier run (default with -r)')
    .option('--no-resume', 'read every file')
    .option('--wait', 'until they are read')
    .option('-n, --dry-run', 'list the files, send nothing')
    .action(async (paths: string[], flags: Flags) => {
      const { title, stdinName, dryRun, wait = false } = flags
      const uploading = uploadingOf('documents upload', flags)
      const files = await filesOf(paths, flags)
      if (title !== undefined && files.length !== 1) throw usage(`--title is for a single file, and these are ${files.length}`)
      const lockTimeout = durationOf('--lock-timeout', flags.lockTimeout)
      if (!dryRun && flags.recursive) await holdFolders(cli, 'documents upload', await foldersOf(paths), lockTimeout)
      const client = dryRun ? null : await (wait ? clientThatWorks(cli, 'documents upload --wait') : cli.client())
      const isJournaled = flags.resume ?? (flags.recursive === true && uploading.after.isKeeping)
      const journal = client && isJournaled ? await journalOf(cli, paths, uploading.options.owner) : null
      await upload(cli, client, files, { ...uploading, options: { ...uploading.options, title }, stdinName, waits: wait, journal })
    })

async function foldersOf(paths: readonly string[]): Promise<string[]> {
  const about = await Promise.all(paths.map(async (path) => ({ path, isFolder: (await stat(path).catch(() => null))?.isDirectory() })))
  return about.flatMap(({ path, isFolder }) => (isFolder ? [path] : []))
}

/** The notes of earlier runs over these paths. */
async function journalOf(cli: Cli, paths: readonly string[], owner = ''): Promise<Journal> {
  const { url } = cli.target
  const server = url ?? (await cli.config()).config.data_dir
  return openJournal(journalPath(cli.env, JSON.stringify([server, cli.options.as, owner]), paths), (error) => {
    if (cli.options.verbose > 0) cli.note(`uploads are not noted: ${error.message}`)
  })
}

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
  return paths.includes('-') ? [{ path: '-', below: '', size: null, mtimeNs: '0' }, ...files] : files
}
