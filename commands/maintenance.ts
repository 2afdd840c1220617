import type { Command } from 'commander'
import type { Cli } from '../src/cli/context.ts'
import { group, manual } from '../src/cli/manual.ts'

export const maintenance = (cli: Cli): Command => group('maintenance', 'What is needed no more.', [run(cli)])

const run = (cli: Cli): Command =>
  manual('run', {
    summary: 'Remove old read notifications and finished jobs. Workers do it once a day by themselves.',
    examples: [
      ['maintenance run', ''],
      ['maintenance run --json | jq .jobs', 'how many jobs went'],
    ],
    exits: '0 done · 69 database unreachable · 75 another run is going on',
    notes: ['How long they are kept: maintenance.notifications_keep, maintenance.jobs_keep.'],
  }).action(async () => {
    const [app, { maintain }] = await Promise.all([
      cli.app('maintenance run', { statementTimeout: false }),
      import('../src/worker/maintain.ts'),
    ])
    const removed = await maintain(app)
    cli.print(removed, {
      columns: [{ name: 'notifications' }, { name: 'jobs' }],
      id: 'jobs',
      sentence: `removed ${removed.notifications} notifications and ${removed.jobs} finished jobs`,
    })
  })
