/** Whether the sockets' sessions are still what they were when their tokens were read. */
import { isAdmin } from '../../actor.ts'
import type { App } from '../../app.ts'
import { findActiveSessions } from '../../auth/auth.ts'
import type { Socket } from './socket.ts'

/** Ends what is no longer good. Somebody who became an admin hears more from now on; somebody who no longer is one has to come again. */
export async function recheckSessions(app: App, sockets: readonly Socket[]): Promise<void> {
  const asked = sockets.flatMap((socket) => (socket.session ? [{ socket, claims: socket.session.claims }] : []))
  if (asked.length === 0) return
  const good = await findActiveSessions(
    app,
    asked.map(({ claims }) => claims),
  )
  for (const { socket, claims } of asked) {
    const { session } = socket
    // Signed in anew while we asked.
    if (session?.claims.jti !== claims.jti) continue
    const actor = good.get(claims.jti)
    if (actor && (isAdmin(actor) || !isAdmin(session.actor))) socket.setActor(actor)
    else socket.refuse('UNAUTHORIZED', 4401, 'The session has ended.')
  }
}
