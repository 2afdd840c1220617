/** The way to the server of this machine: in this process, as the operator. */
import { userInfo } from 'node:os'
import { type Actor, operator } from '../../actor.ts'
import type { App } from '../../app.ts'
import type { Client } from '../../client/client.ts'
import type { LoadedConfig } from '../../config/load.ts'
import type { Log, LogOptions } from '../../log/log.ts'
import { usage } from '../runtime/exit.ts'
import type { GlobalOptions } from '../runtime/options.ts'

/** A log for a command that ends: warnings only, unless -v, a flag or a variable asks for more. */
export async function openCommandLog({ config, origins }: LoadedConfig, { verbose }: GlobalOptions): Promise<Log> {
  const { openLog } = await import('../../log/log.ts')
  const origin = origins.get('log.level')?.origin
  const isAsked = origin === 'flag' || origin === 'env'
  const byVerbosity: LogOptions['level'] = verbose > 1 ? 'trace' : verbose > 0 ? 'info' : 'warn'
  return openLog({ level: isAsked ? config.log.level : byVerbosity, format: config.log.format })
}

/** A client of the server in this process; `as` names the user to act as. Throws Failure USAGE where there is no such user. */
export async function openLocalClient(app: App, as: string | null): Promise<Client> {
  const [{ localClient }, actor] = await Promise.all([import('../../client/local.ts'), findActor(app, as)])
  return localClient(app, { ...actor, via: shellUser() })
}

/** Who sits at the shell, as the audit log has it; containers run users that have a number only. */
function shellUser(): string {
  try {
    return `cli:${userInfo().username}`
  } catch {
    return `cli:${process.getuid?.() ?? 'unknown'}`
  }
}

async function findActor(app: App, as: string | null): Promise<Actor> {
  if (as === null) return operator
  const users = await import('../../users/users.ts')
  const user = await users.findByIdentifier(app.db, as)
  if (!user) throw usage(`there is no user "${as}" to act as`)
  return { id: user.id, role: user.role, username: user.username }
}
