import type { z } from 'zod'
import type { Added, Changes, Fields, HoldAnswer, ListAnswer, listQuery, Removed, ReportAnswer } from '../holds/routes.ts'
import { type EntryStream, type OpenConnection, pathOf, type QueryOf, withQuery } from './http/connection.ts'

type Report = z.infer<typeof ReportAnswer>
type Hold = z.infer<typeof HoldAnswer>

/** Holds, and the report of documents under retention or hold. */
export const holds = ({ call, list }: OpenConnection) => ({
  list: async (query: QueryOf<ReturnType<typeof listQuery>> = {}): Promise<Hold[]> =>
    (await call<z.infer<typeof ListAnswer>>('GET', withQuery(pathOf('holds'), query))).holds,
  get: (id: string): Promise<Hold> => call('GET', pathOf('holds', id)),
  create: (hold: z.input<typeof Fields>): Promise<Hold> => call('POST', pathOf('holds'), hold),
  update: (id: string, changes: z.input<typeof Changes>): Promise<Hold> => call('PUT', pathOf('holds', id), changes),
  /** Deletes a hold that is released or empty. */
  delete: (id: string): Promise<void> => call('DELETE', pathOf('holds', id)),
  release: (id: string): Promise<Hold> => call('POST', pathOf('holds', id, 'release')),
  add: (id: string, document_ids: readonly string[]): Promise<z.infer<typeof Added>> =>
    call('POST', pathOf('holds', id, 'documents'), { document_ids }),
  remove: (id: string, document_ids: readonly string[]): Promise<z.infer<typeof Removed>> =>
    call('POST', pathOf('holds', id, 'documents', 'remove'), { document_ids }),
  removeOne: (id: string, documentId: string): Promise<void> => call('DELETE', pathOf('holds', id, 'documents', documentId)),
  report: (query: { page?: number; per_page?: number } = {}): Promise<Report> =>
    call('GET', withQuery(pathOf('retention', 'report'), query)),
  /** Lists the documents of the report. */
  retained: (query: { per_page?: number } = {}): EntryStream<Report['data'][number]> => list(pathOf('retention', 'report'), query),
})
