/** What the server records about a request, in `event.context`. */
import type { H3Event } from 'h3'
import type { Actor } from '../actor.ts'
import type { AppError, Code } from '../errors.ts'
import type { Session } from './route.ts'

declare module 'h3' {
  interface H3EventContext {
    actor?: Actor
    /** Token of the actor. */
    session?: Session
    /** Throws UNAUTHORIZED if the caller has lost the rights with which the request began. */
    recheckRights?: () => Promise<void>
    requestId?: string
    /** Address of the client, behind trusted proxies. */
    ip?: string
    startedAt?: number
    /** Path of the matched route, with `:name` for parameters. */
    route?: string
    /** Removal date of a deprecated route. */
    sunset?: Date | undefined
    /** Headers of the answer, with names in lower case. Setting them is five times as fast as with `event.res.headers`. */
    headers?: Record<string, string>
    /** The answer has the common headers already. */
    isComplete?: boolean
    /** Code of an error answer. */
    failure?: Code
    /** Error code of a refused request whose answer is no error, such as a page. */
    refusal?: Code
    /** Validated body. */
    input?: unknown
    /** Additional details for the audit log. */
    auditDetails?: Record<string, unknown>
    /** Documents of the request for the audit log, unless path or body names them. */
    documentIds?: readonly string[]
    /** Memory reserved for the answer (server/http/answer-budget.ts). */
    reservation?: { resize(bytes: number): void; grow(bytes: number): Promise<void>; release(): void }
    /** Reserves memory for a file of this size until the client has read it. Throws like AnswerBudget.reserve(). */
    reserveFile?: (bytes: number) => Promise<void>
    /** Set if requests like this one take turns. See turnOf(). */
    takeTurn?: TakeTurn
    /** Whether a command in this process sent the request. Call limits do not apply then. */
    isLocal?: boolean
    /** Returns the answer that this client gets instead of the error body. */
    explain?: (failure: AppError) => Response
  }
}

/** Runs work that takes a connection of the database, as soon as few others of its user do (server/http/turns.ts). Throws RATE_LIMITED. */
export type TakeTurn = <T>(work: () => Promise<T>) => Promise<T>

/** Returns the function with which a request takes a turn. If the request is not limited, the function runs the work at once. */
export const turnOf = ({ context: { takeTurn = (work) => work() } }: H3Event): TakeTurn => takeTurn
