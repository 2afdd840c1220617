/** The two ways to a server: in this process as the operator, or far away with a token. */
import { readFile } from 'node:fs/promises'
import { type Actor, operator } from '../actor.ts'
import type { App } from '../app.ts'
import type { Client } from '../client/client.ts'
import type { Loaded } from '../config-load.ts'
import type { Log, LogOptions } from '../log.ts'
import { Failure, usage } from './exit.ts'
import type { GlobalOptions, Terminal } from './options.ts'

type Env = Terminal['env']

/** A log for a command that ends: warnings only, unless -v, a flag or a variable asks for more. */
export async function commandLog({ config, origins }: Loaded, { verbose }: GlobalOptions): Promise<Log> {
  const { openLog } = await import('../log.ts')
  const origin = origins.get('log.level')?.origin
  const isAsked = origin === 'flag' || origin === 'env'
  const byVerbosity: LogOptions['level'] = verbose > 1 ? 'debug' : verbose > 0 ? 'info' : 'warn'
  return openLog({ level: isAsked ? config.log.level : byVerbosity, format: config.log.format })
}

/** A client of the server in this process; `as` names the user to act as. Throws Failure USAGE where there is no such user. */
export async function clientHere(app: App, as: string | null): Promise<Client> {
  const [{ localClient }, actor] = await Promise.all([import('../client/local.ts'), actorNamed(app, as)])
  return localClient(app, actor)
}

async function actorNamed(app: App, as: string | null): Promise<Actor> {
  if (as === null) return operator
  const users = await import('../users/users.ts')
  const user = await users.named(app.db, as)
  if (!user) throw usage(`there is no user "${as}" to act as`)
  return { id: user.id, role: user.role, username: user.username }
}

/** A client of the server at `url`, with the token of DMS_TOKEN or DMS_TOKEN_FILE; `pause` waits when the server asks for it (seconds). */
export async function clientThere(
  url: string,
  env: Env,
  pause: (seconds: number) => Promise<void>,
): Promise<Client & { close(): Promise<void> }> {
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol))
    throw usage(`"${url}" is not the URL of a server, such as https://dms.example.org`)
  const [{ remoteClient }, token] = await Promise.all([import('../client/remote.ts'), tokenFrom(env)])
  return remoteClient({ base: url, token: async () => token, pause })
}

async function tokenFrom({ DMS_TOKEN: token, DMS_TOKEN_FILE: file }: Env): Promise<string | null> {
  if (token && file) throw usage('DMS_TOKEN and DMS_TOKEN_FILE are both set; use one of them')
  if (!file) return token || null
  try {
    return (await readFile(file, 'utf8')).trim()
  } catch (error) {
    throw new Failure('AUTH', `DMS_TOKEN_FILE=${file}: ${(error as Error).message}`)
  }
}
