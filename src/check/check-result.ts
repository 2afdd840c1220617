/** Types of checks and their results. */
import type { App } from '../app.ts'

export interface CheckResult {
  /** error: data is lost or wrong; warning: data is outdated or unused */
  severity: 'error' | 'warning'
  message: string
  document_id?: string
  /** number of a version of the document */
  version?: number
  sha256?: string
  /** address of the stored file */
  address?: string
  expected?: string | number
  actual?: string | number
  /** Repairs it and returns a description of the change. Absent: no repair is possible. */
  repair?: () => Promise<string>
}

export interface CheckScope {
  /** share of stored files to read in full, 0 to 1 */
  sample: number
  signal: AbortSignal
  onProgress(done: number): void
}

/** Yields problems with bounded memory. */
export type Check = (app: App, scope: CheckScope) => AsyncGenerator<CheckResult>
