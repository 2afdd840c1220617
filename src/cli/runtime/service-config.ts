/** The configuration of a service: like that of every command, but that its log is what it has to say. */
import type { LoadedConfig } from '../../config/load.ts'
import type { Cli } from './context.ts'

/** With --quiet, a log on standard error is of warnings and errors only, unless --log-level asks for more: cron mails every line. */
export async function loadServiceConfig(cli: Cli, settings: Readonly<Record<string, string | number | boolean>>): Promise<LoadedConfig> {
  const loaded = await cli.config(settings)
  const { log } = loaded.config
  const isTalk = log.file === '' && ['trace', 'debug', 'info'].includes(log.level) && loaded.origins.get('log.level')?.origin !== 'flag'
  return cli.options.isQuiet && isTalk ? { ...loaded, config: { ...loaded.config, log: { ...log, level: 'warn' } } } : loaded
}
