/** Every kind of job, and what does it. */
import { purge } from '../documents/run-purge.ts'
import type { Handler, Kind } from '../jobs.ts'
import { extract, ocr } from '../ocr/run-ocr.ts'
import { pages } from '../ocr/run-pages.ts'
import { index, reindex } from '../search/jobs.ts'
import { sync } from '../sources/run-sync.ts'
import { verifyEmail } from '../users/run-verify-email.ts'

export const handlers = { ocr, extract, pages, index, reindex, verify_email: verifyEmail, purge, sync } satisfies {
  [K in Kind]: Handler<K>
}
