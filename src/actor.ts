/** The caller: a signed-in user or admin, or the operator at the shell (id null). */
export interface Actor {
  readonly id: string | null
  readonly role: 'admin' | 'user'
  readonly username: string
  /** origin if not the API: `cli:` and the name of the system user */
  readonly via?: string
  /** scopes of the API token; without a token the role decides alone */
  readonly scopes?: readonly Scope[]
}

/** Scopes of API tokens: `read` for reads, `upload` for new documents, `write` for every change, `admin` for the rights of an admin. */
export const scopes = ['read', 'upload', 'write', 'admin'] as const
export type Scope = (typeof scopes)[number]

/** The operator at the shell of the server, who may do everything and owns nothing. */
export const operator: Actor = { id: null, role: 'admin', username: 'operator' }

export const isAdmin = (actor: Actor): boolean => actor.role === 'admin'
