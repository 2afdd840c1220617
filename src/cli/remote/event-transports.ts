/** Transports for events: the WebSocket of a remote server, or one in this process. */
import { Agent } from 'undici'
import { issueToken } from '../../auth/auth.ts'
import type { StreamOptions } from '../../client/event-stream.ts'
import { dms } from '../../log/fix.ts'
import * as users from '../../users/users.ts'
import type { Cli } from '../runtime/context.ts'
import { Failure } from '../runtime/exit.ts'
import { auditCommand } from './local-client.ts'
import { loadCertificates, openRemoteClient } from './remote-client.ts'
import { type RemoteTarget, rejectLocalFlags } from './target.ts'

export type EventTransport = Pick<StreamOptions, 'url' | 'dispatcher' | 'token' | 'renew'>

/** Opens the WebSocket of a remote server. Requests the profile first, for a clear error message. */
export async function openRemoteEvents(cli: Cli, target: RemoteTarget): Promise<EventTransport> {
  rejectLocalFlags(cli.options, target.url)
  const client = await openRemoteClient(target, cli.connectOptions)
  cli.onEnd(() => client.close())
  const response = await client.send('GET', '/api/users/profile')
  if (response.status === 401) throw new Failure('AUTH', `not signed in to ${target.name}`, { fix: dms`login ${target.url}` })
  await response.arrayBuffer()
  const agent = new Agent({ connect: { timeout: 10_000, ...(await loadCertificates(target)) } })
  cli.onEnd(() => agent.destroy())
  const { token, renew } = client.session
  return { url: `${target.url.replace(/^http/, 'ws')}/ws`, dispatcher: agent, token, renew }
}

/** Opens a WebSocket in this process, as the user of --as or as an admin. Needs no running server. */
export async function openLocalEvents(cli: Cli): Promise<EventTransport> {
  const app = await cli.app('events tail', { hasStatementTimeout: false })
  const { openLocalSocket } = await import('../../server/local-socket.ts')
  const { as } = cli.options
  const user = as === null ? await findAdmin(app) : await users.findByIdentifier(app.db, as)
  if (!user) throw new Failure('NOT_FOUND', `--as ${as}: no such user`)
  if (as !== null) await auditCommand(app, cli, { action: 'dms --as', target: `id=${user.id}`, details: { username: user.username } })
  const server = await openLocalSocket(app)
  cli.onEnd(() => server.close())
  const agent = new Agent({ connect: { socketPath: server.path } })
  cli.onEnd(() => agent.destroy())
  const token = async () => (await issueToken(app, user)).token
  return { url: 'ws://localhost/ws', dispatcher: agent, token, renew: token }
}

async function findAdmin({ db }: Parameters<typeof issueToken>[0]): Promise<users.User> {
  const [admin] = (await users.list(db, { role: 'admin', disabled: false }, { page: 1, per_page: 1 })).rows
  if (!admin)
    throw new Failure('CONFLICT', 'no admin exists to read events as', {
      fix: [dms`users add --username NAME --email ADDRESS --role admin`, ', or pass --as USER'],
    })
  return admin
}
