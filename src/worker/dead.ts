/** Workers that died without a word, as far as this host can tell: their jobs need not wait for the lease to end. */
import { isAlive } from '../alive.ts'
import type { Db } from '../db/db.ts'
import * as jobs from '../jobs.ts'

/** A worker's name says where it runs. */
export const nameOf = (host: string, pid: number): string => `${host}/${pid}`

/** Ends the leases of this host's workers whose process is gone. Should one of them live after all, its fence keeps it from writing. */
export async function buryDead(db: Db, self: string): Promise<void> {
  const [host] = self.split('/')
  const dead = (await jobs.holders(db)).filter((name) => {
    const [theirs, pid] = name.split('/')
    return theirs === host && (name === self || !isAlive(Number(pid)))
  })
  await jobs.expire(db, dead)
  if (dead.length > 0) await db.deleteFrom('workers').where('name', 'in', dead).where('name', '!=', self).execute()
}
