/** Whether tables, files and index agree: finds what should not be, and mends what can be made anew. */
import type { App } from '../app.ts'
import { withLock } from '../db/lock.ts'
import type { Check, Found, Scope } from './check-result.ts'
import { checksums, files, orphans } from './stored-files.ts'
import { index, links, queue, references, status } from './tables.ts'

export interface Finding extends Omit<Found, 'repair' | 'address'> {
  check: CheckName
  /** where the stored file is, or should be; missing where it is about none */
  path?: string
  /** what was done about it; null: nothing */
  repaired: string | null
}

/** In this order. */
export const checks = { files, checksums, orphans, references, status, queue, links, index } satisfies Record<string, Check>
export type CheckName = keyof typeof checks

export interface CheckOptions extends Scope {
  only: readonly CheckName[]
  repair: boolean
  /** milliseconds to wait for another check before Busy is thrown; default 0 */
  lockTimeout?: number
}

/** Asks them all. Nothing is changed without `repair`. Throws Busy where another check is going on. */
export function check(
  app: App,
  { only, repair, lockTimeout = 0, ...scope }: CheckOptions,
  found: (finding: Finding) => void,
): Promise<void> {
  return withLock(app.database, 'check', lockTimeout, async () => {
    for (const name of only) {
      for await (const { repair: mend, address, ...finding } of checks[name](app, scope)) {
        scope.signal.throwIfAborted()
        const path = address === undefined ? {} : { path: app.files.describeLocation(address) }
        found({ check: name, ...finding, ...path, repaired: repair && mend ? await mend() : null })
      }
    }
  })
}
