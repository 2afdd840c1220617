import { randomBytes } from 'node:crypto'
import { existsSync, statSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { Option } from 'commander'
import { group, manual } from '../../src/cli/output/manual.ts'
import { columnsOf, pluralize, rejectOutputFlags } from '../../src/cli/output/output.ts'
import { addGeneratedSecrets, listSettings, maskSecret } from '../../src/cli/output/setting-rows.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { Failure, unusablePath, usage } from '../../src/cli/runtime/exit.ts'
import { openAuditDatabase } from '../../src/cli/runtime/installation.ts'
import { writePrivateFile } from '../../src/cli/runtime/private-file.ts'
import type { LoadedConfig } from '../../src/config/load.ts'
import type { Config } from '../../src/config/schema.ts'
import { createFolder } from '../../src/folders.ts'
import { escapeControls, shellWord } from '../../src/log/escape.ts'
import { readPackageFile } from '../../src/version.ts'

export const config = (cli: Cli) => group('config', 'Check, show and write the configuration', [check(cli), show(cli), init(cli), env(cli)])

const check = (cli: Cli) =>
  manual('check', {
    summary: 'Check the configuration',
    examples: [
      ['config check', 'configuration file and environment variables'],
      ['config check --file new.toml --strict', 'before you install a new file'],
    ],
    exits: '0 valid · 78 errors found (with --strict: or warnings)',
    notes: ['Lists all errors and warnings, not only the first one.'],
  })
    .option('--file <file>', 'check this file instead of the current one')
    .option('--strict', 'treat warnings as errors')
    .action(async ({ file, strict }: { file?: string; strict?: boolean }) => {
      const [{ inspectConfig }, { findExposure }, { findMemoryShortage }] = await Promise.all([
        import('../../src/config/load.ts'),
        import('../../src/config/exposure.ts'),
        import('../../src/config/memory.ts'),
      ])
      const sources = cli.configSources()
      const {
        config,
        problems: wrong,
        warnings: unusual,
        file: checked,
      } = inspectConfig({ ...sources, file: file ?? sources.file }, { withFiles: true })
      const found = [...findExposure(config), findMemoryShortage(config)].filter((one) => one !== null)
      const warnings = [...unusual, ...found.map(({ message, fix }) => `${message}   fix: ${fix}`)]
      const problems = [...wrong, ...(await findOcrProblems(config))]
      const rows = [
        ...problems.map((message) => ({ severity: 'error', message })),
        ...warnings.map((message) => ({ severity: 'warning', message })),
      ]
      const lines = rows.map(({ severity, message }) => `${severity}: ${escapeControls(message)}`)
      const verdict =
        rows.length > 0
          ? `${pluralize(problems.length, 'error')}, ${pluralize(warnings.length, 'warning')}`
          : `✓ ${checked ?? 'no configuration file; defaults and environment variables'}: valid`
      if (problems.length > 0 || (strict && warnings.length > 0)) cli.exit = 'CONFIG'
      if (cli.options.isSilent) for (const line of lines) cli.warn(line)
      else cli.print(rows, { columns: columnsOf(['severity', 'message']), id: 'message', sentence: [...lines, verdict] })
    })

async function findOcrProblems({ ocr }: Config): Promise<readonly string[]> {
  if (!ocr.enabled || ocr.engine !== 'tesseract-native') return []
  const { findOcr } = await import('../../src/ocr/languages.ts')
  return findOcr({ engine: ocr.engine, dataPath: ocr.data_path }).then(
    () => [],
    (error: Error) => [error.message],
  )
}

const show = (cli: Cli) =>
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
    .action(async (key: string | undefined, flags: { origin?: boolean; setOnly?: boolean; reveal?: boolean; yes?: boolean }) => {
      refuseRevealOnTerminal(cli, flags)
      const loaded = await cli.config()
      if (flags.reveal) await auditReveal(cli, loaded, 'dms config show --reveal')
      cli.print(addGeneratedSecrets(loaded, listSettings(loaded, { key, ...flags }), flags), {
        id: 'key',
        columns: [
          { name: 'key' },
          { name: 'value', value: (row) => (row.value === null ? maskSecret(loaded, row.key) : row.value) },
          { name: 'origin', value: (row) => (row.origin === 'default' ? row.origin : row.source), show: flags.origin ? undefined : 'wide' },
        ],
      })
    })

/** Throws Failure USAGE for --reveal on a terminal without --yes. */
function refuseRevealOnTerminal(cli: Cli, { reveal, yes }: { reveal?: boolean; yes?: boolean }): void {
  if (reveal && !yes && cli.options.isTerminal)
    throw usage('--reveal prints secrets on this terminal', 'pass --yes, or redirect the output to a file')
}

/** Writes the output of secrets to the audit log. Without a reachable database it warns: the settings may be needed to repair it. */
async function auditReveal(cli: Cli, { config }: LoadedConfig, action: string): Promise<void> {
  const database = await openAuditDatabase(cli, config, action)
  if (!database) return
  const { tryAuditCommand } = await import('../../src/cli/remote/local-client.ts')
  await tryAuditCommand(database, cli, { action })
}

const init = (cli: Cli) =>
  manual('init', {
    summary: 'Write a configuration file with all settings',
    examples: [
      ['config init', 'the file of --config, else /etc/dms/config.toml for root and ~/.config/dms/config.toml for others'],
      ['config init --to new.toml', ''],
    ],
    exits: '0 written · 7 file exists, and no --force',
    notes: ['All settings are commented out, except a new random jwt_secret if the data folder has none.'],
  })
    .option('--to <file>', 'path of the file')
    .option('--force', 'replace an existing file')
    .action(async ({ to, force }: { to?: string; force?: boolean }) => {
      if (to === '-') throw usage('--to - is not supported: the file holds a secret')
      const path = resolve(to ?? cli.options.config ?? (cli.env.DMS_CONFIG || defaultPath(cli)))
      if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) throw usage(`${path} is a folder`, 'pass --to FILE')
      if (existsSync(path) && !force) throw new Failure('CONFLICT', `file ${path} exists`, { fix: 'pass --force to replace it' })
      await createFolder(dirname(path)).catch((error: Error) => {
        throw unusablePath('--to', path, error)
      })
      const text = readPackageFile('config.example.toml')
      const secretFile = join(await findDataDir(cli), 'jwt_secret')
      const hasSecret = existsSync(secretFile)
      await writePrivateFile(path, hasSecret ? text : withSecret(text), { isSecret: true })
      // Another secret would end all sessions.
      if (hasSecret) cli.note(`auth.jwt_secret stays that of ${secretFile}`)
      cli.print(
        { path },
        { columns: columnsOf(['path']), id: 'path', sentence: `✓ Wrote ${path}; to check it: dms config check --file ${shellWord(path)}` },
      )
    })

/** Returns the data folder in force. The configuration file need not exist. */
async function findDataDir(cli: Cli): Promise<string> {
  const { inspectConfig } = await import('../../src/config/load.ts')
  return inspectConfig(cli.configSources()).config.data_dir
}

function defaultPath({ env }: Cli): string {
  if (process.getuid?.() === 0) return '/etc/dms/config.toml'
  return join(env.XDG_CONFIG_HOME || join(homedir(), '.config'), 'dms', 'config.toml')
}

const withSecret = (text: string): string => text.replace(/^# jwt_secret = "".*$/m, `jwt_secret = "${randomBytes(48).toString('base64')}"`)

const env = (cli: Cli) =>
  manual('env', {
    summary: 'Print the configuration as environment variables',
    examples: [
      ['config env > dms.env', 'for systemd, Docker or compose; names the secrets on standard error'],
      ['config env --secrets-file dms.secrets > dms.env', 'secrets in a separate file, mode 0600'],
      ['config env --reveal > dms.env', 'secrets included; restrict who can read the file'],
      ['config env --json', 'names and values, for a script'],
    ],
    exits: '0 printed · 7 secrets file exists · 78 configuration invalid',
  })
    .option('--secrets-file <file>', 'write secrets to this new file')
    .addOption(new Option('--reveal', 'print secrets').conflicts('secretsFile'))
    .option('-y, --yes', 'print secrets even on a terminal')
    .action(async ({ secretsFile, reveal, yes }: { secretsFile?: string; reveal?: boolean; yes?: boolean }) => {
      rejectOutputFlags(cli.options, 'the output is an environment file')
      refuseRevealOnTerminal(cli, { reveal, yes })
      const { settings } = await import('../../src/config/schema.ts')
      const loaded = await cli.config()
      if (reveal || secretsFile !== undefined) await auditReveal(cli, loaded, `dms config env ${reveal ? '--reveal' : '--secrets-file'}`)
      const variables = listSettings(loaded, { setOnly: true, reveal: true }).map(({ key, value, secret }) => ({
        name: settings.get(key)?.env ?? key,
        value: Array.isArray(value) ? value.join(',') : String(value ?? ''),
        isOmitted: secret && !reveal,
      }))
      const secrets = variables.filter(({ isOmitted }) => isOmitted)
      if (secretsFile !== undefined)
        await writeFile(secretsFile, formatLines(secrets), { flag: 'wx', mode: 0o600 }).catch((error: Error) => {
          throw unusablePath('--secrets-file', secretsFile, error)
        })
      else for (const { name } of secrets) cli.note(`omitted secret ${name} (include it with --secrets-file or --reveal)`)
      const printed = variables.filter(({ isOmitted }) => !isOmitted).map(({ name, value }) => ({ name, value }))
      if (cli.options.isJson) cli.print(printed, { columns: columnsOf(['name', 'value']), id: 'name' })
      else cli.write(formatLines(printed))
    })

const formatLines = (variables: readonly { name: string; value: string }[]): string =>
  variables.map(({ name, value }) => `${name}=${quote(value)}\n`).join('')

/** Quotes a value that a shell or an env file would split or expand. */
const quote = (value: string): string => (/^[\w./:@,+-]*$/.test(value) ? value : `"${value.replace(/[\\"$`]/g, '\\$&')}"`)
