import type { Command } from 'commander'
import { group, manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'
import { plain } from '../../src/log/escape.ts'
import { configEnv } from './env.ts'
import { configInit } from './init.ts'

export const config = (cli: Cli): Command =>
  group('config', 'Check, show and write the configuration.', [check(cli), show(cli), configInit(cli), configEnv(cli)])

const check = (cli: Cli): Command =>
  manual('check', {
    summary: 'List everything that is wrong with the configuration.',
    examples: [
      ['config check', 'config.toml and the variables'],
      ['config check --file new.toml --strict', 'before it is put in place'],
    ],
    exits: '0 fine · 78 something is wrong (with --strict: or warned of)',
  })
    .option('--file <file>', 'check this file instead of the one in use')
    .option('--strict', 'warnings count as errors')
    .action(async ({ file, strict }: { file?: string; strict?: boolean }) => {
      const { inspectConfig } = await import('../../src/config/load.ts')
      const sources = cli.configSources()
      const { problems, warnings, file: used } = inspectConfig({ ...sources, file: file ?? sources.file })
      const rows = [
        ...problems.map((message) => ({ severity: 'error', message })),
        ...warnings.map((message) => ({ severity: 'warning', message })),
      ]
      const lines = rows.map(({ severity, message }) => `${severity}: ${plain(message)}`)
      const verdict =
        rows.length > 0
          ? `${count(problems.length, 'error')}, ${count(warnings.length, 'warning')}`
          : `✓ ${used ?? 'no configuration file; the defaults and variables'}: fine`
      cli.print(rows, { columns: [{ name: 'severity' }, { name: 'message' }], id: 'message', sentence: [...lines, verdict] })
      if (problems.length > 0 || (strict && warnings.length > 0)) cli.exit = 'CONFIG'
    })

const show = (cli: Cli): Command =>
  manual('show [key]', {
    summary: 'Show the settings in force.',
    examples: [
      ['config show --origin auth', 'one section, with where each value comes from'],
      ['config show --set-only', 'only what differs in origin from the defaults'],
      ['config show server.port --fields value', 'one value, for a script'],
    ],
    exits: '0 shown · 2 no such setting · 78 the configuration is wrong',
  })
    .option('--origin', 'with the place that each value comes from')
    .option('--set-only', 'without those that nobody set')
    .option('--reveal', 'with secrets in the clear')
    .option('-y, --yes', 'reveal them on a terminal too')
    .action(async (key: string | undefined, flags: ShowFlags) => {
      if (flags.reveal && !flags.yes && cli.options.isTerminal)
        throw usage('--reveal would put secrets on this screen', 'pass --yes, or send the output to a file')
      const { masked, settingRows, withKept } = await import('../../src/cli/output/setting-rows.ts')
      const loaded = await cli.config()
      cli.print(withKept(loaded, settingRows(loaded, key, flags), flags), {
        id: 'key',
        columns: [
          { name: 'key' },
          { name: 'value', value: (row) => (row.value === null ? masked(loaded, row.key) : row.value) },
          {
            name: 'origin',
            value: ({ source, origin }) => (origin === 'default' ? origin : source),
            show: flags.origin ? undefined : 'wide',
          },
        ],
      })
    })

interface ShowFlags {
  origin?: boolean
  setOnly?: boolean
  reveal?: boolean
  yes?: boolean
}

const count = (number: number, word: string): string => `${number} ${word}${number === 1 ? '' : 's'}`
