/** The database and the document store alone, for commands that work on them whatever state the schema is in. */
import type { Installation } from '../../open-app.ts'
import type { Cli } from './context.ts'

/** Opens them until the end of the command; `settings` are its own flags by dotted key. Throws Failure USAGE for another machine, ConfigError. */
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
