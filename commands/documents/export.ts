import type { Command } from 'commander'
import { type FilterFlags, filtersOf, withFilters } from '../../src/cli/arguments/document-filters.ts'
import { manual } from '../../src/cli/output/manual.ts'
import { refuseTerminal } from '../../src/cli/remote/download-target.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'
import type { DocumentView } from '../../src/documents/view.ts'
import { withoutContent } from './list.ts'

interface Flags extends Omit<FilterFlags, 'to'> {
  to: string
  until?: string
  withText?: boolean
  deleteExtra?: boolean
  allowEmpty?: boolean
  clobber?: boolean
  concurrency: string
}

export const documentsExport = (cli: Cli): Command =>
  withFilters(
    manual('export', {
      summary: 'Write the files of documents to a folder or an archive, with a manifest of what is known of them.',
      examples: [
        ['documents export --to /mnt/usb', 'everything; again: only what is new'],
        ['documents export --label tax --from 2025-01-01 --to tax.tar --with-text', ''],
        ['documents export --to /srv/mirror --delete-extra -q', 'a mirror, from cron'],
        ['dms documents export --to - | age -r "$KEY" > all.tar.age', 'into a pipe'],
      ],
      exits:
        '0 all there · 2 bad filter · 3 some could not be fetched · 4 not signed in · 6 no such label, source or owner · 7 the archive exists, or --delete-extra would leave nothing · 69 unreachable · 130 interrupted',
      notes: [
        'Files are named after those that were uploaded, with the end of the id: contract-9c1f3a5b7d2e.pdf. manifest.jsonl holds a line of JSON for each, with its name in "file".',
        'In a folder, what is there already is not fetched again, and files of others are left alone.',
        'Where no document matches, --delete-extra removes nothing and ends with 7, unless --allow-empty says that a mirror may be emptied.',
      ],
    }),
    '--until',
  )
    .requiredOption('--to <place>', 'a folder, FILE.tar, or - for an archive on standard output')
    .option('--with-text', 'the text that was read beside each, as FILE.txt')
    .option('--delete-extra', 'remove what an earlier export wrote to this folder and this one does not have')
    .option('--allow-empty', 'with --delete-extra: also where no document matches, so that all of it goes')
    .option('--clobber', 'replace an archive that exists')
    .option('--concurrency <n>', 'files at once, to a folder', '4')
    .action(async (flags: Flags) => {
      const { to, withText = false, deleteExtra = false, allowEmpty = false, clobber = false, concurrency, until, ...others } = flags
      const filters: FilterFlags = { ...others, ...(until === undefined ? {} : { to: until }) }
      const isTar = to === '-' || to.endsWith('.tar')
      if (isTar && deleteExtra) throw usage('--delete-extra is for a folder')
      if (allowEmpty && !deleteExtra) throw usage('--allow-empty goes with --delete-extra')
      if (!/^([1-9]|[1-5]\d|6[0-4])$/.test(concurrency)) throw usage(`--concurrency ${concurrency}: a whole number from 1 to 64`)
      if (to === '-') refuseTerminal(cli)
      const client = await cli.client()
      const query = {
        ...(await filtersOf(client, filters)),
        fields: Object.keys(withoutContent).join(','),
        sort: 'created_at',
        order: 'asc',
      }
      const documents: DocumentView[] = await Array.fromAsync(client.documents.list(query))
      if (isTar) {
        const { exportToPipe, exportToTar } = await import('../../src/cli/export/tar.ts')
        if (to === '-') await exportToPipe(cli, client, documents, withText)
        else await exportToTar(cli, client, documents, to, { withText, clobbers: clobber })
        return
      }
      const { exportToFolder } = await import('../../src/cli/export/folder.ts')
      await exportToFolder(cli, client, documents, to, {
        withText,
        deletesExtra: deleteExtra,
        allowsEmpty: allowEmpty,
        concurrency: Number(concurrency),
      })
    })
