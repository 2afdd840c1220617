/** The messages between a server and its worker process. */
import type { Config } from '../config/schema.ts'

export type ToWorker =
  /** the first one */
  | { readonly kind: 'start'; readonly config: Config; readonly parentPid: number }
  /** take no more jobs, wait for those that run, end */
  | { readonly kind: 'stop'; readonly timeoutMs: number }
  /** give back the jobs that run, and end at once */
  | { readonly kind: 'release' }
  /** the log file was moved away, or the level changed */
  | { readonly kind: 'reopen'; readonly level: string }

/** Sent by the main thread each second. */
export interface Heartbeat {
  readonly running: readonly RunningJob[]
}

export interface RunningJob {
  readonly job: string
  readonly kind: string
  readonly document_id: string | undefined
  readonly running_ms: number
}

export const heartbeatIntervalMs = 1000
