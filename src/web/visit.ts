import type { App } from '../app.ts'
import type { Client } from '../client/client.ts'

/** A request of a signed-in user for a page. */
export interface Visit {
  readonly app: App
  /** Client of the API as the user. */
  readonly client: Client
  readonly username: string
  readonly isAdmin: boolean
  readonly query: URLSearchParams
  /** `:id` of the path; empty without one. */
  readonly id: string
}
