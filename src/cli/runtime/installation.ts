/** Parts of this machine that a command opens: configuration of a service, database and document store. */

import type { RestoreTarget } from '../../backup/restore/restore-target.ts'
import { readFile } from '../../config/environment.ts'
import type { FlagSettings, LoadedConfig } from '../../config/load.ts'
import type { Config } from '../../config/schema.ts'
import type { Log } from '../../log/log.ts'
import type { DatabaseAccess, Installation } from '../../open-app.ts'
import type { Cli } from './context.ts'
import { usage } from './exit.ts'

/** Opens the database and the document store until the end of the command; `settings` are flags of the command by dotted key. Throws Failure USAGE for a remote server, ConfigError, NoData. */
export const openLocalInstallation = (
  cli: Cli,
  command: string,
  settings: FlagSettings = {},
  access?: DatabaseAccess,
): Promise<Installation> =>
  openLocally(cli, command, settings, async (config, log) => (await import('../../open-app.ts')).openInstallation(config, log, access))

/**
 * Opens the database of the audit log for a command that needs no database otherwise. Returns null if there is none, and, with a warning, if it cannot
 * be reached: the command may be needed to repair it.
 */
export async function openAuditDatabase(cli: Cli, config: Config, command: string): Promise<Installation['database'] | null> {
  const { hasData } = await import('../../open-app.ts')
  if (!(await hasData(config))) return null
  try {
    return (await openLocalInstallation(cli, command)).database
  } catch (error) {
    cli.warn(`warning: not in the audit log: ${(error as Error).message}`)
    return null
  }
}

/** Opens the destination of a restore until the end of the command, without creating anything. Throws like openLocalInstallation(). */
export const openLocalTarget = (cli: Cli, command: string, settings: FlagSettings): Promise<RestoreTarget> =>
  openLocally(cli, command, settings, async (config, log) =>
    (await import('../../backup/restore/restore-target.ts')).openRestoreTarget(config, log),
  )

async function openLocally<T extends { close(): Promise<void> }>(
  cli: Cli,
  command: string,
  settings: FlagSettings,
  open: (config: Config, log: Log) => Promise<T>,
): Promise<T> {
  cli.rejectRemote(command)
  const [loaded, { openCommandLog }] = await Promise.all([cli.localConfig(settings), import('../remote/local-client.ts')])
  const opened = await open(loaded.config, await openCommandLog(loaded, cli.options))
  cli.onEnd(() => opened.close())
  return opened
}

/** Creates the archive if there is none. Throws Failure USAGE for a remote server, ConfigError. */
export async function createArchive(cli: Cli): Promise<void> {
  if (cli.target.url !== null) throw usage(`--init applies to this machine only, not to ${cli.target.url}`, 'pass --local')
  const [loaded, { hasData, openApp }, { openCommandLog }] = await Promise.all([
    cli.localConfig(),
    import('../../open-app.ts'),
    import('../remote/local-client.ts'),
  ])
  if (await hasData(loaded.config)) return
  const app = await openApp(loaded.config, await openCommandLog(loaded, cli.options), { migrate: 'embedded', creates: true })
  // Open until the end: the command needs a running database.
  cli.onEnd(() => app.close())
}

/** Loads the configuration. --quiet raises the log level on standard error to warn, unless --log-level is given. */
export const loadServiceConfig = async (cli: Cli, settings: FlagSettings): Promise<LoadedConfig> =>
  quieten(await cli.localConfig(settings), cli)

/** Reads the log level from the files as they are now. */
export async function reloadLogLevel(cli: Cli, settings: FlagSettings): Promise<string> {
  const { loadConfig } = await import('../../config/load.ts')
  return quieten(loadConfig({ ...cli.configSources(settings), readFile }), cli).config.log.level
}

function quieten(loaded: LoadedConfig, { options }: Cli): LoadedConfig {
  const { log } = loaded.config
  const isBelowWarn =
    log.file === '' && ['trace', 'debug', 'info'].includes(log.level) && loaded.origins.get('log.level')?.origin !== 'flag'
  return options.isQuiet && isBelowWarn ? { ...loaded, config: { ...loaded.config, log: { ...log, level: 'warn' } } } : loaded
}
