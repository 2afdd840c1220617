import type { Command } from 'commander'
import type { Cli } from '../src/cli/context.ts'
import { usage } from '../src/cli/exit.ts'
import { manual } from '../src/cli/manual.ts'
import { settingRows } from '../src/cli/setting-rows.ts'

interface Flags {
  reveal?: boolean
  yes?: boolean
}

export const configEnv = (cli: Cli): Command =>
  manual('env', {
    summary: 'Print the configuration in force as variables, for an env file of systemd, Docker or compose.',
    examples: [
      ['config env > dms.env', 'without secrets, which are named on standard error'],
      ['config env --reveal > dms.env', 'with them; mind who can read the file'],
      ['config env --json', 'the same for a program: names and values'],
    ],
    exits: '0 printed · 78 the configuration is wrong',
  })
    .option('--reveal', 'with secrets in the clear')
    .option('-y, --yes', 'reveal them on a terminal too')
    .action(async ({ reveal, yes }: Flags) => {
      if (reveal && !yes && cli.options.isTerminal)
        throw usage('--reveal would put secrets on this screen', 'pass --yes, or send the output to a file')
      const { settings } = await import('../src/config.ts')
      const rows = settingRows(await cli.config(), undefined, { setOnly: true, reveal: reveal === true })
      const variables = rows.map(({ key, value }) => ({
        name: settings.get(key)?.env ?? key,
        value: value === null ? null : Array.isArray(value) ? value.join(',') : String(value),
      }))
      for (const { name, value } of variables) if (value === null) cli.note(`left out: ${name}, a secret (--reveal)`)
      const known = variables.flatMap(({ name, value }) => (value === null ? [] : [{ name, value }]))
      if (['json', 'jsonl'].includes(cli.options.format)) cli.print(known, { columns: [{ name: 'name' }, { name: 'value' }], id: 'name' })
      else for (const { name, value } of known) cli.write(`${name}=${quoted(value)}\n`)
    })

/** In quotes where a space or a sign would be taken for something else. */
const quoted = (value: string): string => (/^[\w./:@,+-]*$/.test(value) ? value : `"${value.replace(/[\\"$`]/g, '\\$&')}"`)
