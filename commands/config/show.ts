import type { Command } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'

interface Flags {
  origin?: boolean
  setOnly?: boolean
  reveal?: boolean
  yes?: boolean
}

export const configShow = (cli: Cli): Command =>
  manual('show [key]', {
    summary: 'Show the current settings',
    examples: [
      ['config show --origin auth', 'one section, with the origin of each value'],
      ['config show --set-only', 'without defaults'],
      ['config show server.port --fields value', 'one value, for a script'],
    ],
    exits: '0 shown · 2 no such setting · 78 configuration invalid',
  })
    .option('--origin', 'show the origin of each value')
    .option('--set-only', 'omit defaults')
    .option('--reveal', 'print secrets')
    .option('-y, --yes', 'print secrets even on a terminal')
    .action(async (key: string | undefined, flags: Flags) => {
      refuseRevealOnTerminal(cli, flags)
      const { maskSecret, listSettings, addGeneratedSecrets } = await import('../../src/cli/output/setting-rows.ts')
      const loaded = await cli.config()
      cli.print(addGeneratedSecrets(loaded, listSettings(loaded, key, flags), flags), {
        id: 'key',
        columns: [
          { name: 'key' },
          { name: 'value', value: (row) => (row.value === null ? maskSecret(loaded, row.key) : row.value) },
          {
            name: 'origin',
            value: ({ source, origin }) => (origin === 'default' ? origin : source),
            show: flags.origin ? undefined : 'wide',
          },
        ],
      })
    })

/** Throws Failure USAGE for --reveal on a terminal without --yes. */
export function refuseRevealOnTerminal(cli: Cli, { reveal, yes }: Pick<Flags, 'reveal' | 'yes'>): void {
  if (reveal && !yes && cli.options.isTerminal)
    throw usage('--reveal prints secrets on this terminal', 'pass --yes, or redirect the output to a file')
}
