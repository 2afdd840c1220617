import type { Command } from 'commander'
import { group, type Manual, manual } from '../src/cli/output/manual.ts'
import { startBatch } from '../src/cli/runtime/batch.ts'
import type { Cli } from '../src/cli/runtime/context.ts'
import type { Step } from '../src/worker/maintenance.ts'

export const maintenance = (cli: Cli): Command =>
  group('maintenance', 'What is needed no more.', [
    command(cli, 'run', null, {
      summary: 'Remove all that is needed no more. Workers do it once a day by themselves.',
      examples: [
        ['maintenance run', ''],
        ['maintenance run -n', 'how much would go'],
        ['maintenance run --json | jq .jobs', 'how many jobs went'],
      ],
      notes: ['The same as the other commands of this group, one after the other.'],
    }),
    command(cli, 'purge-trash', ['files'], {
      summary: 'Remove stored files that no document has.',
      examples: [
        ['maintenance purge-trash -n', 'how many there are'],
        ['maintenance purge-trash', 'free their place now'],
      ],
      notes: [
        'There is no trash to bring anything back from: `dms documents delete` is final, and a worker removes the file soon after. This removes what is still there, also of uploads that were broken off.',
        'Files that the database never heard of are left alone: dms check --checks orphans --repair sets them aside.',
      ],
    }),
    command(cli, 'expire-links', ['links'], {
      summary: 'Remove shared links that expired or were revoked long ago.',
      examples: [
        ['maintenance expire-links -n', 'how many'],
        ['maintenance expire-links', ''],
      ],
      notes: [
        'A link stops working at its moment without this; until it is removed it answers 410, then 404. How long: maintenance.links_keep.',
      ],
    }),
    command(cli, 'purge-notifications', ['notifications'], {
      summary: 'Remove old notifications that were read.',
      examples: [['maintenance purge-notifications', '']],
      notes: ['How long they are kept: maintenance.notifications_keep.'],
    }),
    command(cli, 'vacuum-jobs', ['jobs'], {
      summary: 'Remove finished jobs.',
      examples: [
        ['maintenance vacuum-jobs -n', 'how many'],
        ['maintenance vacuum-jobs', ''],
      ],
      notes: ['How long they are kept: maintenance.jobs_keep. The job of a document that failed stays with it.'],
    }),
  ])

/** One of them; `only`: these steps (null: all). */
const command = (cli: Cli, name: string, only: readonly Step[] | null, text: Omit<Manual, 'exits'>): Command =>
  manual(name, { ...text, exits: '0 done, also when there was nothing · 69 database unreachable · 75 another run is going on' })
    .option('-n, --dry-run', 'say how much would be removed')
    .action(async ({ dryRun: isDryRun = false }: { dryRun?: boolean }) => {
      const words = `maintenance ${name}`
      const [app, { allSteps, maintain }] = await Promise.all([
        cli.app(words, { statementTimeout: false }),
        import('../src/worker/maintenance.ts'),
      ])
      const batch = startBatch(cli, words, { isDryRun, columns: [{ name: 'action' }, { name: 'key' }, { name: 'count', align: 'right' }] })
      const removed = await maintain(app, only ?? allSteps, isDryRun)
      for (const [key, count] of Object.entries(removed)) {
        batch.add({ action: 'removed', key, count })
        if (cli.options.isHuman) cli.note(`${key}: ${count}`)
      }
      batch.finish(removed)
    })
