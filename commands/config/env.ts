import { writeFile } from 'node:fs/promises'
import { type Command, Option } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import { listSettings } from '../../src/cli/output/setting-rows.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'
import { refuseRevealOnTerminal } from './show.ts'

interface Flags {
  secretsFile?: string
  reveal?: boolean
  yes?: boolean
}

export const configEnv = (cli: Cli): Command =>
  manual('env', {
    summary: 'Print the configuration as environment variables',
    examples: [
      ['config env > dms.env', 'for systemd, Docker or compose; names the secrets on standard error'],
      ['config env --secrets-file dms.secrets > dms.env', 'secrets in a separate file, mode 0600'],
      ['config env --reveal > dms.env', 'secrets included; restrict who can read the file'],
      ['config env --json', 'names and values, for a script'],
    ],
    exits: '0 printed · 2 secrets file exists · 78 configuration invalid',
  })
    .option('--secrets-file <file>', 'write secrets to this new file')
    .addOption(new Option('--reveal', 'print secrets').conflicts('secretsFile'))
    .option('-y, --yes', 'print secrets even on a terminal')
    .action(async ({ secretsFile, reveal, yes }: Flags) => {
      refuseRevealOnTerminal(cli, { reveal, yes })
      const { settings } = await import('../../src/config/schema.ts')
      const variables = listSettings(await cli.config(), undefined, { setOnly: true, reveal: true }).map(({ key, value, secret }) => ({
        name: settings.get(key)?.env ?? key,
        value: Array.isArray(value) ? value.join(',') : String(value),
        isOmitted: secret && !reveal,
      }))
      const secrets = variables.filter(({ isOmitted }) => isOmitted)
      if (secretsFile !== undefined) await writeSecrets(secretsFile, secrets)
      else for (const { name } of secrets) cli.note(`omitted secret ${name} (include it with --secrets-file or --reveal)`)
      const printed = variables.filter(({ isOmitted }) => !isOmitted).map(({ name, value }) => ({ name, value }))
      if (cli.options.isJson) cli.print(printed, { columns: [{ name: 'name' }, { name: 'value' }], id: 'name' })
      else cli.write(formatLines(printed))
    })

interface Variable {
  readonly name: string
  readonly value: string
}

const formatLines = (variables: readonly Variable[]): string => variables.map(({ name, value }) => `${name}=${quote(value)}\n`).join('')

const writeSecrets = (path: string, secrets: readonly Variable[]): Promise<void> =>
  writeFile(path, formatLines(secrets), { flag: 'wx', mode: 0o600 }).catch((error: Error) => {
    throw usage(`cannot write --secrets-file: ${error.message}`)
  })

/** Quotes a value that a shell or an env file would split or expand. */
const quote = (value: string): string => (/^[\w./:@,+-]*$/.test(value) ? value : `"${value.replace(/[\\"$`]/g, '\\$&')}"`)
