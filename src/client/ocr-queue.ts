import type { z } from 'zod'
import type { Priority } from '../jobs/queue.ts'
import type { ItemAnswer, LanguagesAnswer, listQuery, RecoverAnswer, RetryMany, RetryManyAnswer, StatusAnswer } from '../ocr/routes.ts'
import { type EntryStream, type OpenConnection, type Page, pathOf, type QueryOf, withQuery } from './http/connection.ts'

export type OcrJob = z.infer<typeof ItemAnswer>
export type OcrStatus = z.infer<typeof StatusAnswer>
type JobQuery = QueryOf<ReturnType<typeof listQuery>>

/** OCR queue. `documents.retryOcr` adds a document. */
export const ocrQueue = ({ call, list }: OpenConnection) => ({
  status: (): Promise<OcrStatus> => call('GET', pathOf('ocr', 'queue', 'status')),
  list: (query: JobQuery = {}): EntryStream<OcrJob> => list(pathOf('ocr', 'queue'), query),
  page: (query: JobQuery = {}): Promise<Page<OcrJob>> => call('GET', withQuery(pathOf('ocr', 'queue'), query)),
  get: (id: string): Promise<OcrJob> => call('GET', pathOf('ocr', 'queue', id)),
  prioritise: (id: string, priority: Priority): Promise<OcrJob> => call('PUT', pathOf('ocr', 'queue', id, 'priority'), { priority }),
  cancel: (id: string): Promise<void> => call('DELETE', pathOf('ocr', 'queue', id)),
  /** Requeues failed jobs: all, or those with these ids. */
  retry: (selection: z.input<typeof RetryMany>): Promise<z.infer<typeof RetryManyAnswer>> =>
    call('POST', pathOf('ocr', 'queue', 'retry'), selection),
  /** Starts no job until resume(); for admins. */
  pause: (): Promise<OcrStatus> => call('POST', pathOf('ocr', 'queue', 'pause')),
  resume: (): Promise<OcrStatus> => call('POST', pathOf('ocr', 'queue', 'resume')),
  /** Queues pending documents that have no job, in batches: repeat until none is left; for admins. */
  recover: (): Promise<z.infer<typeof RecoverAnswer>> => call('POST', pathOf('ocr', 'queue', 'recover')),
  languages: (): Promise<z.infer<typeof LanguagesAnswer>> => call('GET', pathOf('ocr', 'languages')),
})
