import { confirm } from '../../src/cli/arguments/prompt.ts'
import { findSource } from '../../src/cli/arguments/sources.ts'
import { findServerTime, parseWhen } from '../../src/cli/arguments/time-span.ts'
import { type BatchItem, errorColumn, startBatch } from '../../src/cli/output/batch-output.ts'
import { manual } from '../../src/cli/output/manual.ts'
import { type Column, columnsOf } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { Failure, usage } from '../../src/cli/runtime/exit.ts'
import type { Client } from '../../src/client/client.ts'
import type { Rollback, Source } from '../../src/client/sources.ts'

interface Flags {
  before: string
  dryRun?: boolean
  yes?: boolean
}

const columns: Column<BatchItem>[] = [
  { name: 'action' },
  { name: 'key', title: 'PATH' },
  ...columnsOf(['title'], { show: 'wide' }),
  { name: 'id', title: 'DOCUMENT', show: 'wide' },
  errorColumn,
]

export const rollback = (cli: Cli) =>
  manual('rollback <source>', {
    summary: 'Return the documents of a source to an earlier moment',
    examples: [
      ['sources rollback invoices --before yesterday -n', 'dry run: lists what would change'],
      ['sources rollback invoices --before 2026-11-20T08:00:00Z', 'asks first'],
      ['sources rollback invoices --before 6h -y', ''],
    ],
    exits:
      '0 rolled back, or nothing to do · 2 no terminal to confirm on, and no --yes · 3 some documents failed · 6 no such source · 75 source is being synced',
    notes: [
      'Each document gets the version of that moment as a new version. Later documents move to the trash, documents trashed since return.',
      'If the server has no trash (documents.trash_days = 0), later documents stay and count as failed.',
      'Can be repeated, also after an interruption. Later versions stay in the history of the document. A waiting sync is cancelled.',
      'The next sync does not fetch the same damaged files again. A date means its first moment (UTC).',
    ],
  })
    .requiredOption('--before <when>', 'moment to return to: 6h, yesterday, 2026-11-20, 2026-11-20T08:00:00Z')
    .option('-n, --dry-run', 'list what would change')
    .option('-y, --yes', 'roll back without asking')
    .action(async (nameOrId: string, { dryRun = false, yes = false, ...flags }: Flags) => {
      parseWhen('--before', flags.before)
      const client = await cli.client()
      const now = await findServerTime(cli, client)
      const before = parseWhen('--before', flags.before, { now })
      if (Date.parse(before) > now) throw usage(`--before ${flags.before} is in the future`)
      const source = await findSource(client, nameOrId)
      if (!dryRun && !yes && !cli.options.printCurl) {
        const { restored, trashed } = await request(client, source, before, true)
        const question = `Roll back source "${source.name}" to ${before}? ${restored} documents return to that moment, ${trashed} move to the trash.`
        await confirm(cli.options, question)
      }
      const { items, has_more, ...counts } = await request(client, source, before, dryRun)
      const batch = startBatch(cli, 'sources rollback', { columns, isDryRun: dryRun })
      for (const { action, path, document_id, title, filename, error } of items)
        batch.add({ action, key: path ?? title, id: document_id, title, filename, error: error ?? undefined })
      if (has_more) cli.note(`the first ${items.length} of ${counts.restored + counts.trashed + counts.failed} documents`)
      batch.finish({ ...counts, total: counts.restored + counts.trashed + counts.unchanged + counts.failed, has_more })
    })

async function request(client: Client, { id, name }: Source, before: string, dry_run: boolean): Promise<Rollback> {
  try {
    return await client.sources.rollback(id, { before, dry_run })
  } catch (error) {
    if ((error as { code?: unknown }).code !== 'SOURCE_SYNC_IN_PROGRESS') throw error
    throw new Failure('BUSY', `source "${name}" is being synced`, { code: 'SOURCE_SYNC_RUNNING' })
  }
}
