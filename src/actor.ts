/** Who is asking: a signed-in user or admin, or the operator at the shell (id null). */
export interface Actor {
  readonly id: string | null
  readonly role: 'admin' | 'user'
  readonly username: string
  /** where the actor sits, where that is not the API: `cli:` and the name of the machine's user */
  readonly via?: string
  /** what the API token allows that the actor came with; without it everything that the role does */
  readonly scopes?: readonly Scope[]
}

/** What an API token can allow: `read` what changes nothing, `upload` new documents, `write` every change, `admin` what is an admin's. */
export const scopes = ['read', 'upload', 'write', 'admin'] as const
export type Scope = (typeof scopes)[number]

/** Whoever sits at the shell of this machine: allowed everything, owner of nothing. */
export const operator: Actor = { id: null, role: 'admin', username: 'operator' }

export const isAdmin = (actor: Actor): boolean => actor.role === 'admin'
