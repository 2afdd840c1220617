/** Who is asking: a signed-in user or admin, or the operator at the shell (id null). */
export interface Actor {
  readonly id: string | null
  readonly role: 'admin' | 'user'
  readonly username: string
}

/** Whoever sits at the shell of this machine: allowed everything, owner of nothing. */
export const operator: Actor = { id: null, role: 'admin', username: 'operator' }

export const isAdmin = (actor: Actor): boolean => actor.role === 'admin'
