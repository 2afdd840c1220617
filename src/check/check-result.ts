/** What a check tells, and what it is told. */
import type { App } from '../app.ts'

export interface Found {
  /** error: something is lost or wrong; warning: something is late or superfluous */
  severity: 'error' | 'warning'
  message: string
  document_id?: string
  sha256?: string
  /** of the stored file that it is about */
  address?: string
  expected?: string | number
  actual?: string | number
  /** what --repair does about it; missing: nothing can be done here */
  repair?: () => Promise<string>
}

export interface Scope {
  /** the share of stored files whose bytes are read and hashed, 0 to 1 */
  sample: number
  signal: AbortSignal
  onProgress(done: number): void
}

/** One question. Answers come as they are found, with bounded memory. */
export type Check = (app: App, scope: Scope) => AsyncGenerator<Found>
