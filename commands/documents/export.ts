import { stat } from 'node:fs/promises'
import { Option } from 'commander'
import { addFilterFlags, buildDocumentQuery, type FilterFlags } from '../../src/cli/arguments/document-filters.ts'
import { parseCount, parseDurationFlag } from '../../src/cli/arguments/flag-values.ts'
import { auditExport } from '../../src/cli/export/audit-export.ts'
import { findExportFiles } from '../../src/cli/export/find-files.ts'
import { manual } from '../../src/cli/output/manual.ts'
import { rejectTerminal } from '../../src/cli/remote/download-target.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'
import { dms } from '../../src/log/fix.ts'
import { fieldsWithoutContent } from './list.ts'

interface Flags extends Omit<FilterFlags, 'to'> {
  to: string
  until?: string
  withText?: boolean
  allVersions?: boolean
  rendition?: 'pdfa'
  deleteExtra?: boolean
  allowEmpty?: boolean
  clobber?: boolean
  concurrency: string
  lockTimeout: string
}

export const exportDocuments = (cli: Cli) =>
  addFilterFlags(
    manual('export', {
      summary: 'Export documents and a manifest to a folder or tar',
      examples: [
        ['documents export --to /mnt/usb', 'everything; a second run writes only what is new'],
        ['documents export --label tax --since 2025-01-01 --to tax.tar --with-text', ''],
        ['documents export --to /srv/mirror --delete-extra -q', 'a mirror, from cron'],
        ['documents export --to /mnt/usb --all-versions', 'old versions too: contract-9c1f3a5b7d2e.v1.pdf'],
        ['documents export --to /mnt/usb --rendition pdfa', 'searchable PDF/A, where it was made'],
        ['dms documents export --to - | age -r "$KEY" > all.tar.age', 'to a pipe'],
      ],
      exits:
        '0 exported · 2 bad filter · 3 some documents failed · 4 not signed in · 6 no such label, source or owner · 7 archive exists, or --delete-extra would empty the folder · 69 server unreachable · 75 another export to the folder runs · 130 interrupted',
      notes: [
        'File names are the original names with the end of the id: contract-9c1f3a5b7d2e.pdf. manifest.jsonl has one JSON object per document, with the file name in "file".',
        'With --all-versions, manifest.jsonl also has an object for each old version, with "current": false. Documents in the trash are not exported.',
        'In a folder, existing files are not fetched again, and files that no export wrote are kept.',
        'Until an archive on standard output is complete, $TMPDIR holds its manifest: about 1 kB per document.',
        'If no document matches, --delete-extra deletes nothing and exits 7, unless --allow-empty is given.',
      ],
    }),
    { hasTo: false },
  )
    .requiredOption('--to <place>', 'folder, FILE.tar, or - for a tar archive on standard output')
    .option('--with-text', 'also write the text of each document, as FILE.txt')
    .option('--all-versions', 'also export old versions, as FILE.vN.pdf')
    .addOption(new Option('--rendition <kind>', 'renditions in place of files that have one').choices(['pdfa']))
    .option('--delete-extra', 'delete files of earlier exports that no longer match')
    .option('--allow-empty', 'let --delete-extra delete all files')
    .option('--clobber', 'replace an existing archive')
    .option('--concurrency <n>', 'parallel downloads, to a folder', '4')
    .option('--lock-timeout <duration>', 'time to wait for another export to the folder', '0s')
    .action(async (flags: Flags) => {
      const {
        to,
        withText = false,
        allVersions = false,
        rendition,
        deleteExtra = false,
        allowEmpty = false,
        clobber = false,
        concurrency,
        lockTimeout,
        ...filters
      } = flags
      const isTar = to === '-' || /\.tar$/i.test(to)
      if (/\.(tar\.\w+|t[bgx]z|zip|7z)$/i.test(to) && !(await stat(to).catch(() => null)))
        throw usage(`--to ${to}: not a folder, FILE.tar or -`, [dms`documents export --to -`, ' | gzip > FILE.tar.gz'])
      if (isTar && deleteExtra) throw usage('--delete-extra needs a folder, not an archive')
      if (allowEmpty && !deleteExtra) throw usage('--allow-empty needs --delete-extra')
      const concurrencyCount = parseCount('--concurrency', concurrency, { max: 64 })
      const lockTimeoutMs = parseDurationFlag('--lock-timeout', lockTimeout)
      if (to === '-') rejectTerminal(cli)
      const client = await cli.client()
      const order = { sort: 'created_at', order: 'asc' }
      const query = { ...(await buildDocumentQuery(cli, client, filters)), fields: fieldsWithoutContent.join(','), ...order }
      const { exportToFolder, lockExportFolder } = await import('../../src/cli/export/folder.ts')
      // Before the list is read: the other export may write documents that an older list does not have.
      if (!isTar && !cli.options.printCurl) await lockExportFolder(cli, to, lockTimeoutMs)
      const files = await findExportFiles(client, query, {
        hasOldVersions: allVersions,
        rendition,
        concurrency: concurrencyCount,
        signal: cli.signal,
      })
      await auditExport(cli, cli.localApp, 'dms documents export', { documents: files.documentCount, files: files.count, to })
      if (isTar) {
        const { exportToStdout, exportToTar } = await import('../../src/cli/export/tar.ts')
        if (to === '-') await exportToStdout(cli, client, files, { hasText: withText })
        else await exportToTar(cli, client, files, to, { hasText: withText, canOverwrite: clobber })
        return
      }
      await exportToFolder(cli, client, files, to, {
        hasText: withText,
        shouldDeleteExtra: deleteExtra,
        canDeleteAll: allowEmpty,
        concurrency: concurrencyCount,
      })
    })
