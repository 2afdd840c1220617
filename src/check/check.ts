/** Whether tables, files and index agree: finds what should not be, and mends what can be made anew. */
import type { App } from '../app.ts'
import { withLock } from '../db/lock.ts'
import { checksums, files, orphans } from './stored.ts'
import { index, links, queue, references, status } from './tables.ts'

export interface Found {
  /** error: something is lost or wrong; warning: something is late or superfluous */
  severity: 'error' | 'warning'
  message: string
  document_id?: string
  sha256?: string
  expected?: string | number
  actual?: string | number
  /** what --repair does about it; missing: nothing can be done here */
  repair?: () => Promise<string>
}

export interface Finding extends Omit<Found, 'repair'> {
  check: CheckName
  /** what was done about it; null: nothing */
  repaired: string | null
}

export interface Scope {
  /** the share of stored files whose bytes are read and hashed, 0 to 1 */
  sample: number
  signal: AbortSignal
  onProgress(done: number): void
}

/** One question. Answers come as they are found, with bounded memory. */
export type Check = (app: App, scope: Scope) => AsyncGenerator<Found>

/** In this order. */
export const checks = { files, checksums, orphans, references, status, queue, links, index } satisfies Record<string, Check>
export type CheckName = keyof typeof checks

export interface CheckOptions extends Scope {
  only: readonly CheckName[]
  repair: boolean
}

/** Asks them all. Nothing is changed without `repair`. Throws Busy where another check is going on. */
export function check(app: App, { only, repair, ...scope }: CheckOptions, found: (finding: Finding) => void): Promise<void> {
  return withLock(app.database, 'check', 0, async () => {
    for (const name of only) {
      for await (const { repair: mend, ...finding } of checks[name](app, scope)) {
        scope.signal.throwIfAborted()
        found({ check: name, ...finding, repaired: repair && mend ? await mend() : null })
      }
    }
  })
}
