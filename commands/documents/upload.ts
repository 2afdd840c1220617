import { accessSync, constants } from 'node:fs'
import { stat } from 'node:fs/promises'
import { basename } from 'node:path'
import { parseDurationFlag } from '../../src/cli/arguments/flag-values.ts'
import { createMissingLabels, findLabelIds } from '../../src/cli/arguments/labels.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { Failure, usage } from '../../src/cli/runtime/exit.ts'
import { lockFolders } from '../../src/cli/runtime/run-lock.ts'
import { inProcessWorkerNote, openClientWithWorker } from '../../src/cli/runtime/wait.ts'
import { assertMovesOut } from '../../src/cli/upload/after-upload.ts'
import { type FoundFile, findFiles, readPathList, unknownStats } from '../../src/cli/upload/find-files.ts'
import { addUploadFlags, parseUploadFlags, type UploadFlags } from '../../src/cli/upload/flags.ts'
import { uploadFiles } from '../../src/cli/upload/upload.ts'
import { openUploadCache, type UploadCache, uploadCachePath } from '../../src/cli/upload/upload-cache.ts'
import { shellWord } from '../../src/log/escape.ts'
import { dms } from '../../src/log/fix.ts'

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

export const upload = (cli: Cli) =>
  addUploadFlags(
    manual('upload [path...]', {
      summary: 'Upload files; skip those that exist on the server',
      examples: [
        ['documents upload contract.pdf --label contracts --create-labels', 'creates the label if it is missing'],
        ['documents upload -r /srv/scans --wait', 'a folder; waits until search finds the documents'],
        ["documents upload -r . --include '*.pdf' --exclude drafts -n", 'dry run'],
        ['documents upload -r /srv/scans --min-age 1m --after-upload move:/srv/done -q', 'from cron'],
        ['find . -mtime -1 -print0 | dms documents upload --files-from - -0', 'a list of paths'],
        ['scanimage --format=pdf | dms documents upload - --stdin-name scan.pdf', 'from a pipe'],
        ['documents upload report.pdf --owner ana -o id', 'for another user; prints the id'],
      ],
      exits:
        '0 all uploaded · 3 some failed (with --wait also: OCR failed) · 1, or a more specific code, if all failed · 6 no such label or owner · 8 no worker runs (--wait) · 69 server unreachable · 75 another run uploads the same folder (-r) · 130 interrupted',
      notes: [
        'On the server, documents belong to --owner, to the user of --as, or else to the first admin.',
        'After Ctrl-C the files being sent have 1.5 s to finish. The next run with -r sends the rest. Files and folders inside folders whose names begin with a dot are skipped.',
        'With -r one run at a time uploads a folder; --lock-timeout waits for the other one.',
        'With -r the SHA-256 of each file is cached in $XDG_STATE_HOME/dms/uploads, so that later runs read only changed files. The server is asked each time whether it has them.',
        'Files that are deleted or moved afterwards are always sent, so that the server compares them with the stored ones.',
        'With a symbolic link, --after-upload deletes the link; move:DIR first copies its file to DIR. The file that it points to stays.',
        'Files under 8 MiB are sent in batches of ten.',
        `--wait: ${inProcessWorkerNote}`,
      ],
    }),
  )
    .option('-r, --recursive', 'upload folders with everything below them')
    .option('--files-from <file>', 'read paths from a file, one per line; - reads standard input')
    .option('-0', 'paths of --files-from end with NUL')
    .option('--stdin-name <name>', 'file name for the content of standard input')
    .option('--title <title>', 'title instead of the file name, for a single file')
    .option('--resume', 'use the upload cache (default with -r)')
    .option('--no-resume', 'ignore the upload cache')
    .option('--wait', 'wait until OCR has finished and search finds the documents')
    .option('-n, --dry-run', 'look up the files, upload nothing')
    .action(async (paths: string[], flags: Flags) => {
      const { title, stdinName, dryRun, wait = false } = flags
      const uploading = parseUploadFlags('documents upload', flags)
      const lockTimeout = parseDurationFlag('--lock-timeout', flags.lockTimeout)
      const listed = await readListed(paths, flags)
      const folders = flags.recursive ? await foldersOf([...paths, ...listed]) : []
      await assertMovesOut(flags.afterUpload, folders)
      // The other run may delete or move the files.
      if (!dryRun) await lockFolders(cli, 'documents upload', folders, lockTimeout)
      const files = await collectFiles(paths, listed, flags)
      if (title !== undefined && files.length !== 1) throw usage(`--title needs a single file, not ${files.length}`)
      const client = await (wait && !dryRun ? openClientWithWorker(cli, 'documents upload --wait') : cli.client())
      const labels = flags.label.join(',')
      if (!dryRun && flags.createLabels) await createMissingLabels(cli, client, labels)
      if (dryRun && !flags.createLabels && labels !== '') await findLabelIds(client, labels)
      const isCached = flags.resume ?? (flags.recursive === true && uploading.afterUpload.isKept)
      const cache = isCached ? await openCache(cli, paths, uploading.options.owner) : null
      const options = { ...uploading.options, title }
      const readable = cli.dataOwner === null ? files : files.map((file) => checkReadable(cli, file, cli.dataOwner ?? ''))
      await uploadFiles(cli, client, readable, { ...uploading, options, stdinName, shouldWait: wait, cache, isDryRun: dryRun === true })
    })

/** Adds an error to a file that only root can read: root acts as `user`, the owner of the data folder. */
function checkReadable({ options }: Cli, file: FoundFile, user: string): FoundFile {
  if (file.path === '-' || file.error) return file
  try {
    accessSync(file.path, constants.R_OK)
    return file
  } catch {
    const fix = [`let "${user}" read it, or: `, dms`documents upload - --stdin-name ${basename(file.path)}`, ` < ${shellWord(file.path)}`]
    const message = `"${user}", the owner of the data folder, may not read this file; fix: ${options.formatFix(fix)}`
    return { ...file, error: new Failure('FAILED', message) }
  }
}

async function foldersOf(paths: readonly string[]): Promise<string[]> {
  const isFolder = await Promise.all(paths.map(async (path) => (await stat(path).catch(() => null))?.isDirectory()))
  return paths.filter((_, index) => isFolder[index])
}

/** Opens the upload cache of earlier runs with these paths, server and user. */
async function openCache(cli: Cli, paths: readonly string[], owner = ''): Promise<UploadCache> {
  const { url } = cli.target
  const server = url ?? (await cli.localConfig()).config.data_dir
  return openUploadCache(uploadCachePath(cli.env, JSON.stringify([server, cli.options.as, owner]), paths), (error) => {
    if (cli.options.verbose > 0) cli.note(`cannot write the upload cache: ${error.message}`)
  })
}

/** Returns the paths of --files-from. Throws Failure USAGE, also if nothing is given to upload. */
async function readListed(paths: readonly string[], { filesFrom, stdinName, ...flags }: Flags): Promise<string[]> {
  if (filesFrom === undefined && paths.length === 0) throw usage('no file given', 'pass paths, or --files-from FILE')
  if (filesFrom === '-' && paths.includes('-')) throw usage('- and --files-from - exclude each other: both read standard input')
  if (paths.includes('-')) {
    if (!stdinName) throw usage('standard input needs a file name', 'pass --stdin-name NAME')
    if (process.stdin.isTTY) throw usage('"-" reads a file from standard input, which is a terminal', 'pipe a file into the command')
  }
  return filesFrom === undefined ? [] : readPathList(filesFrom, flags[0] === true)
}

async function collectFiles(paths: readonly string[], listed: readonly string[], flags: Flags): Promise<FoundFile[]> {
  const { recursive = false, followSymlinks = false, include, exclude } = flags
  const options = { isRecursive: recursive, shouldFollowLinks: followSymlinks, include, exclude }
  const files = await findFiles([...paths.filter((path) => path !== '-'), ...listed], options)
  return paths.includes('-') ? [{ ...unknownStats, path: '-', relativePath: '' }, ...files] : files
}
