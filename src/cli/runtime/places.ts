/** Database and document store for commands that work with any schema version. */
import type { Installation } from '../../open-app.ts'
import type { Cli } from './context.ts'

/** Opens both until the end of the command; `settings` are flags of the command by dotted key. Throws Failure USAGE for a remote server, ConfigError. */
export async function openPlaces(cli: Cli, command: string, settings: Readonly<Record<string, string>> = {}): Promise<Installation> {
  cli.rejectRemote(command)
  const [loaded, opening, { openCommandLog }] = await Promise.all([
    cli.config(settings),
    import('../../open-app.ts'),
    import('../remote/local-client.ts'),
  ])
  const places = await opening.openInstallation(loaded.config, await openCommandLog(loaded, cli.options))
  cli.onEnd(() => places.close())
  return places
}
