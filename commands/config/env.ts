import { writeFile } from 'node:fs/promises'
import { type Command, Option } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import { settingRows } from '../../src/cli/output/setting-rows.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'

interface Flags {
  secretsFile?: string
  reveal?: boolean
  yes?: boolean
}

export const configEnv = (cli: Cli): Command =>
  manual('env', {
    summary: 'Print the configuration in force as variables, for an env file of systemd, Docker or compose.',
    examples: [
      ['config env > dms.env', 'without secrets, which are named on standard error'],
      ['config env --secrets-file dms.secrets > dms.env', 'those in a file of their own, which only you can read'],
      ['config env --reveal > dms.env', 'with them; mind who can read the file'],
      ['config env --json', 'the same for a program: names and values'],
    ],
    exits: '0 printed · 2 the file of secrets is there already · 78 the configuration is wrong',
  })
    .option('--secrets-file <file>', 'write secrets to this file, which must not exist')
    .addOption(new Option('--reveal', 'with secrets in the clear').conflicts('secretsFile'))
    .option('-y, --yes', 'reveal them on a terminal too')
    .action(async ({ secretsFile, reveal, yes }: Flags) => {
      if (reveal && !yes && cli.options.isTerminal)
        throw usage('--reveal would put secrets on this screen', 'pass --yes, or send the output to a file')
      const { settings } = await import('../../src/config/schema.ts')
      const variables = settingRows(await cli.config(), undefined, { setOnly: true, reveal: true }).map(({ key, value, secret }) => ({
        name: settings.get(key)?.env ?? key,
        value: Array.isArray(value) ? value.join(',') : String(value),
        isLeftOut: secret && !reveal,
      }))
      const secrets = variables.filter(({ isLeftOut }) => isLeftOut)
      if (secretsFile !== undefined) await writeSecrets(secretsFile, secrets)
      else for (const { name } of secrets) cli.note(`left out: ${name}, a secret (--secrets-file, --reveal)`)
      const known = variables.filter(({ isLeftOut }) => !isLeftOut).map(({ name, value }) => ({ name, value }))
      if (cli.options.isJson) cli.print(known, { columns: [{ name: 'name' }, { name: 'value' }], id: 'name' })
      else cli.write(linesOf(known))
    })

interface Variable {
  readonly name: string
  readonly value: string
}

const linesOf = (variables: readonly Variable[]): string => variables.map(({ name, value }) => `${name}=${quoted(value)}\n`).join('')

const writeSecrets = (path: string, secrets: readonly Variable[]): Promise<void> =>
  writeFile(path, linesOf(secrets), { flag: 'wx', mode: 0o600 }).catch((error: Error) => {
    throw usage(`--secrets-file: ${error.message}`)
  })

/** In quotes where a space or a sign would be taken for something else. */
const quoted = (value: string): string => (/^[\w./:@,+-]*$/.test(value) ? value : `"${value.replace(/[\\"$`]/g, '\\$&')}"`)
