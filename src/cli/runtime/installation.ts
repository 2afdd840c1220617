/** Parts of this machine that a command opens: configuration of a service, database and document store. */

import type { LoadedConfig } from '../../config/load.ts'
import type { Installation } from '../../open-app.ts'
import type { Cli } from './context.ts'

/** Opens the database and the document store until the end of the command; `settings` are flags of the command by dotted key. Throws Failure USAGE for a remote server, ConfigError. */
export async function openLocalInstallation(
  cli: Cli,
  command: string,
  settings: Readonly<Record<string, string>> = {},
): Promise<Installation> {
  cli.rejectRemote(command)
  const [loaded, opening, { openCommandLog }] = await Promise.all([
    cli.localConfig(settings),
    import('../../open-app.ts'),
    import('../remote/local-client.ts'),
  ])
  const installation = await opening.openInstallation(loaded.config, await openCommandLog(loaded, cli.options))
  cli.onEnd(() => installation.close())
  return installation
}

/** Loads the configuration. --quiet raises the log level on standard error to warn, unless --log-level is given. */
export async function loadServiceConfig(cli: Cli, settings: Readonly<Record<string, string | number | boolean>>): Promise<LoadedConfig> {
  const loaded = await cli.localConfig(settings)
  const { log } = loaded.config
  const isBelowWarn =
    log.file === '' && ['trace', 'debug', 'info'].includes(log.level) && loaded.origins.get('log.level')?.origin !== 'flag'
  return cli.options.isQuiet && isBelowWarn ? { ...loaded, config: { ...loaded.config, log: { ...log, level: 'warn' } } } : loaded
}
