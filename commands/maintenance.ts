import { startBatch } from '../src/cli/output/batch-output.ts'
import { type CommandHelp, group, manual } from '../src/cli/output/manual.ts'
import type { Cli } from '../src/cli/runtime/context.ts'
import { exitOfAbort } from '../src/cli/runtime/run-batch.ts'
import type { Step } from '../src/worker/maintenance.ts'

export const maintenance = (cli: Cli) =>
  group('maintenance', 'Delete expired data', [
    maintenanceCommand(cli, 'run', null, {
      summary: 'Run all maintenance tasks',
      examples: [
        ['maintenance run', ''],
        ['maintenance run -n', 'dry run'],
        ['maintenance run --json | jq .jobs', 'number of deleted jobs'],
      ],
      notes: ['Runs every other command of this group. Workers do this once a day.'],
    }),
    maintenanceCommand(cli, 'purge-trash', ['trash', 'versions', 'files'], {
      summary: 'Purge expired trash, old versions and unused files',
      examples: [
        ['maintenance purge-trash -n', 'dry run'],
        ['maintenance purge-trash', 'free the space now'],
      ],
      notes: [
        'Destroys documents that were in the trash for documents.trash_days, versions past documents.keep_versions and documents.version_days, then stored files that no version has. Documents under retention or hold stay. To purge all of the trash: dms trash empty',
        'Files that are unknown to the database are kept. To quarantine them: dms check --checks orphans --repair.',
      ],
    }),
    maintenanceCommand(cli, 'expire-links', ['links'], {
      summary: 'Delete shared links that expired or were revoked',
      examples: [
        ['maintenance expire-links -n', 'dry run'],
        ['maintenance expire-links', ''],
      ],
      notes: ['Such links answer 410 until they are deleted after maintenance.links_keep, then 404.'],
    }),
    maintenanceCommand(cli, 'purge-notifications', ['notifications'], {
      summary: 'Delete old notifications that were read',
      examples: [['maintenance purge-notifications', '']],
      notes: ['Retention: maintenance.notifications_keep.'],
    }),
    maintenanceCommand(cli, 'vacuum-jobs', ['jobs'], {
      summary: 'Delete finished jobs',
      examples: [
        ['maintenance vacuum-jobs -n', 'dry run'],
        ['maintenance vacuum-jobs', ''],
      ],
      notes: ['Retention: maintenance.jobs_keep. Completed jobs are deleted by whole weeks. Jobs of failed documents are kept.'],
    }),
  ])

/** Builds a command that runs `steps`; null runs all. */
const maintenanceCommand = (cli: Cli, name: string, steps: readonly Step[] | null, text: Omit<CommandHelp, 'exits'>) =>
  manual(name, {
    ...text,
    exits: '0 done, or nothing to do · 8 --timeout passed · 69 database unreachable · 75 another run is in progress',
  })
    .option('-n, --dry-run', 'count what would be deleted')
    .action(async ({ dryRun: isDryRun = false }: { dryRun?: boolean }) => {
      const words = `maintenance ${name}`
      // The getter installs the signal handler: from here on a signal ends the maintenance, not the process.
      const { signal } = cli
      const [app, { allSteps, maintain }, { runAudited }] = await Promise.all([
        cli.app(words, { hasStatementTimeout: false }),
        import('../src/worker/maintenance.ts'),
        import('../src/cli/remote/local-client.ts'),
      ])
      const batch = startBatch(cli, words, { isDryRun, columns: [{ name: 'action' }, { name: 'key' }, { name: 'count', align: 'right' }] })
      const chosen = steps ?? allSteps
      const removed: Partial<Record<Step, number>> = {}
      const progress = cli.progress('maintenance')
      const update = (): void => progress.update({ done: Object.keys(removed).length, total: chosen.length })
      const onRemoved = (step: Step, count: number): void => {
        removed[step] = count
        update()
      }
      const work = async (): Promise<void> => {
        update()
        await maintain(app, chosen, { isDryRun, signal, onRemoved })
        signal.throwIfAborted()
      }
      try {
        await (isDryRun ? work() : runAudited(app, cli, { action: `dms ${words}`, counts: () => removed }, work))
      } catch (error) {
        if (!signal.aborted) throw error
        cli.exit = exitOfAbort(signal)
      }
      progress.done()
      for (const [key, count] of Object.entries(removed)) {
        batch.add({ action: 'removed', key, count })
        if (cli.options.isHuman) cli.note(`${key}: ${count}`)
      }
      batch.finish(removed)
    })
