/** Removes stored bytes that no document has any more. */
import type { Handler } from '../jobs.ts'
import { lockStored } from './upload.ts'

export const purge: Handler<'purge'> = {
  async run(app, { payload: { sha256 } }) {
    return async (trx) => {
      // Keeps an upload of the same bytes out until both row and file are gone, or keeps us out until its document is there.
      await lockStored(trx, { sha256, size: 0 })
      const used = await trx.selectFrom('documents').select('id').where('sha256', '=', sha256).limit(1).executeTakeFirst()
      if (used) return
      await trx.deleteFrom('stored_files').where('sha256', '=', sha256).execute()
      await app.files.remove(sha256)
    }
  },
}
