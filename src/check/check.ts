/** Checks whether tables, stored files and index agree, and repairs what can be rebuilt. */
import type { App } from '../app.ts'
import { withLock } from '../db/lock.ts'
import { otherKind } from '../files/used-stores.ts'
import type { Check, CheckResult, CheckScope } from './check-result.ts'
import { checksums, files, orphans } from './stored-files.ts'
import { index, links, queue, references, status } from './tables.ts'
import { versions } from './versions.ts'

export interface Finding extends Omit<CheckResult, 'repair' | 'address'> {
  check: CheckName
  /** location of the stored file, if the finding is about one */
  path?: string
  /** description of the repair; null: nothing was changed */
  repaired: string | null
}

/** All checks, in order of execution. */
export const checks = { files, checksums, orphans, references, versions, status, queue, links, index } satisfies Record<string, Check>
export type CheckName = keyof typeof checks

export interface CheckOptions extends CheckScope {
  only: readonly CheckName[]
  repair: boolean
  /** maximum wait for another check, in milliseconds; default 0 */
  lockTimeout?: number
  /** runs before the first check, while no other check runs */
  onStart?(): Promise<void>
}

/** Runs checks. Changes nothing without `repair`. Throws Busy while another check is running. */
export function check(
  app: App,
  { only, repair: canRepair, lockTimeout = 0, onStart, ...scope }: CheckOptions,
  onFinding: (finding: Finding) => void,
): Promise<void> {
  const work = async () => {
    await onStart?.()
    for (const name of only) {
      for await (const { repair, address, ...result } of checks[name](app, scope)) {
        scope.signal.throwIfAborted()
        const path = address === undefined ? {} : { path: await locate(app, address) }
        onFinding({ check: name, ...result, ...path, repaired: canRepair && repair ? await repair() : null })
      }
    }
  }
  return withLock(app.database, 'check', lockTimeout, work, { signal: scope.signal })
}

/** Returns the location of a file in the store that has it, or in the primary store. */
async function locate({ files, stores }: App, address: string): Promise<string> {
  for (const kind of [stores.primary, otherKind[stores.primary]]) {
    const store = await stores.open(kind).catch(() => null)
    const size = await store?.size(address).catch(() => null)
    if (store && typeof size === 'number') return store.describeLocation(address)
  }
  return files.describeLocation(address)
}
