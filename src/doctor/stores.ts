/** Checks the secondary document store, from which a migration moves files. */
import { otherKind } from '../files/used-stores.ts'
import { type Check, type CheckResult, ok, SkippedCheck } from './doctor.ts'
import type { LazyInstallation } from './installation.ts'

export const secondaryStoreCheck = (installation: LazyInstallation): Check => ({
  id: 'stores',
  about: 'second document store: reachable, files left to move',
  run: () => checkSecondary(installation),
})

async function checkSecondary(installation: LazyInstallation): Promise<CheckResult> {
  const { stores } = await installation.app()
  const kind = otherKind[stores.primary]
  const store = await stores.open(kind)
  if (store === null) throw new SkippedCheck('there is one document store')
  await store.check()
  for await (const _ of store.list()) {
    return ok(`files are left in ${stores.locate(kind)}: dms storage status`)
  }
  return ok(`${stores.locate(kind)} is empty, and is not needed once all servers run with storage.kind = "${stores.primary}"`)
}
