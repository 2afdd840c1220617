import type { z } from 'zod'
import type * as routes from '../sources/routes.ts'
import type * as views from '../sources/view.ts'
import { type OpenConnection, pathOf, withQuery } from './http/connection.ts'

export type Source = z.infer<typeof views.SourceAnswer>
export type Rollback = z.infer<typeof views.RollbackAnswer>
export type SyncStatus = z.infer<typeof views.StatusAnswer>

/** Sources of documents. */
export const sources = ({ call }: OpenConnection) => ({
  list: async (): Promise<Source[]> => (await call<z.infer<typeof routes.ListAnswer>>('GET', pathOf('sources'))).sources,
  get: (id: string): Promise<Source> => call('GET', pathOf('sources', id)),
  create: (source: z.input<typeof routes.Fields>): Promise<Source> => call('POST', pathOf('sources'), source),
  update: (id: string, changes: z.input<typeof routes.Changes>): Promise<Source> => call('PUT', pathOf('sources', id), changes),
  /** `documents: 'delete'` also deletes the documents of the source. */
  delete: (id: string, options: { documents?: 'keep' | 'delete' } = {}): Promise<void> =>
    call('DELETE', withQuery(pathOf('sources', id), options)),
  test: (id: string): Promise<z.infer<typeof routes.TestAnswer>> => call('POST', pathOf('sources', id, 'test')),
  /** Tests an address before a source is created. */
  testAddress: (address: z.input<typeof routes.AddressFields>): Promise<z.infer<typeof routes.TestAnswer>> =>
    call('POST', pathOf('sources', 'test'), address),
  sync: (id: string, options: z.input<typeof routes.SyncOptions> = {}): Promise<z.infer<typeof routes.SyncAnswer>> =>
    call('POST', pathOf('sources', id, 'sync'), options),
  /** Lists the files that a sync would fetch. */
  planSync: (id: string, options: z.input<typeof routes.PlanOptions> = {}): Promise<z.infer<typeof views.PlanAnswer>> =>
    call('POST', pathOf('sources', id, 'sync', 'plan'), options),
  syncStatus: (id: string): Promise<SyncStatus> => call('GET', pathOf('sources', id, 'sync-status')),
  /** Returns the documents to their versions of `before`. */
  rollback: (id: string, options: z.input<typeof routes.RollbackOptions>): Promise<Rollback> =>
    call('POST', pathOf('sources', id, 'rollback'), options),
  cancelSync: (id: string): Promise<z.infer<typeof routes.SyncAnswer>> => call('POST', pathOf('sources', id, 'cancel')),
})
