/** Removes stored bytes that no document has any more. */
import type { App } from '../app.ts'
import type { Trx } from '../db/db.ts'
import { backupKeepsFiles } from '../db/lock.ts'
import type { Handler } from '../jobs.ts'
import * as jobs from '../jobs.ts'
import { lockStored } from './upload.ts'

/** Milliseconds until it is looked again whether a backup still needs the bytes. */
const pause = 60_000

export const purge: Handler<'purge'> = {
  async run(app, { payload: { sha256 } }) {
    return async (trx) => {
      if ((await purgeStored(app, trx, sha256)) !== 'needed') return
      const runAt = new Date(app.now().getTime() + pause)
      await jobs.enqueue(trx, 'purge', { sha256 }, { dedupe: `purge:${sha256}`, runAt })
    }
  },
}

/** Removes these bytes unless a document has them (used), or a backup that is being made (needed). */
export async function purgeStored(app: App, trx: Trx, sha256: string): Promise<'removed' | 'used' | 'needed'> {
  if (await backupKeepsFiles(trx)) return 'needed'
  // Keeps an upload of the same bytes out until both row and file are gone, or keeps us out until its document is there.
  await lockStored(trx, { sha256, size: 0 })
  const used = await trx.selectFrom('documents').select('id').where('sha256', '=', sha256).limit(1).executeTakeFirst()
  if (used) return 'used'
  await trx.deleteFrom('stored_files').where('sha256', '=', sha256).execute()
  await app.files.remove(sha256)
  return 'removed'
}
