import type { z } from 'zod'
import type { Priority } from '../jobs/queue.ts'
import type { ItemAnswer, LanguagesAnswer, listQuery, RecoverAnswer, RetryMany, RetryManyAnswer, StatusAnswer } from '../ocr/routes.ts'
import { type EntryStream, type OpenConnection, type Page, pathOf, type QueryOf, withQuery } from './connection.ts'

export type OcrJob = z.infer<typeof ItemAnswer>
export type OcrStatus = z.infer<typeof StatusAnswer>
type JobQuery = QueryOf<ReturnType<typeof listQuery>>

/** What is read, and what waits for it. A document is queued with `documents.retryOcr`. */
export const ocrQueue = ({ call, list }: OpenConnection) => ({
  status: (): Promise<OcrStatus> => call('GET', pathOf('ocr', 'queue', 'status')),
  list: (query: JobQuery = {}): EntryStream<OcrJob> => list(pathOf('ocr', 'queue'), query),
  page: (query: JobQuery = {}): Promise<Page<OcrJob>> => call('GET', withQuery(pathOf('ocr', 'queue'), query)),
  get: (id: string): Promise<OcrJob> => call('GET', pathOf('ocr', 'queue', id)),
  prioritise: (id: string, priority: Priority): Promise<OcrJob> => call('PUT', pathOf('ocr', 'queue', id, 'priority'), { priority }),
  cancel: (id: string): Promise<void> => call('DELETE', pathOf('ocr', 'queue', id)),
  /** Queues failed jobs again: all, or those with these ids. */
  retry: (which: z.input<typeof RetryMany>): Promise<z.infer<typeof RetryManyAnswer>> =>
    call('POST', pathOf('ocr', 'queue', 'retry'), which),
  /** For admins: no job is begun until resume(). */
  pause: (): Promise<OcrStatus> => call('POST', pathOf('ocr', 'queue', 'pause')),
  resume: (): Promise<OcrStatus> => call('POST', pathOf('ocr', 'queue', 'resume')),
  /** For admins: queues documents that wait for a job which is not there; some at a time, so again until none is left. */
  recover: (): Promise<z.infer<typeof RecoverAnswer>> => call('POST', pathOf('ocr', 'queue', 'recover')),
  languages: (): Promise<z.infer<typeof LanguagesAnswer>> => call('GET', pathOf('ocr', 'languages')),
})
