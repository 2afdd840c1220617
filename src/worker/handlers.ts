/** Every kind of job with its handler. */
import { purgeHandler } from '../documents/purge.ts'
import { rendition } from '../documents/renditions/rendition-job.ts'
import { retainHandler } from '../documents/retention.ts'
import type { Handler, Kind } from '../jobs/queue.ts'
import { extract, ocr } from '../ocr/ocr-job.ts'
import { pages } from '../ocr/ocr-pages-job.ts'
import { index, reindex } from '../search/jobs.ts'
import { sync } from '../sources/sync/sync-job.ts'
import { verifyEmail } from '../users/email-verification.ts'

export const handlers = {
  ocr,
  extract,
  pages,
  rendition,
  index,
  reindex,
  verify_email: verifyEmail,
  purge: purgeHandler,
  retain: retainHandler,
  sync,
} satisfies {
  [K in Kind]: Handler<K>
}
