/** Configuration of a service, whose log is its output. */
import type { LoadedConfig } from '../../config/load.ts'
import type { Cli } from './context.ts'

/** Loads the configuration. --quiet raises the log level on standard error to warn, unless --log-level is given. */
export async function loadServiceConfig(cli: Cli, settings: Readonly<Record<string, string | number | boolean>>): Promise<LoadedConfig> {
  const loaded = await cli.config(settings)
  const { log } = loaded.config
  const isTalk = log.file === '' && ['trace', 'debug', 'info'].includes(log.level) && loaded.origins.get('log.level')?.origin !== 'flag'
  return cli.options.isQuiet && isTalk ? { ...loaded, config: { ...loaded.config, log: { ...log, level: 'warn' } } } : loaded
}
