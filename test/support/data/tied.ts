/** Two ends of a way that something stands on. */
import type { Socket } from 'node:net'

/** Each ends with the other; while they are open, both are in `through`. */
export function tie(near: Socket, far: Socket, through: Set<Socket>): void {
  for (const [socket, other] of [[near, far] as const, [far, near] as const]) {
    through.add(socket)
    socket
      .on('error', () => other.destroy())
      .on('close', () => {
        through.delete(socket)
        other.destroy()
      })
  }
}
