import type { z } from 'zod'
import type { EntryAnswer, ListAnswer, listQuery, VerificationAnswer } from '../audit/routes.ts'
import { type EntryStream, type OpenConnection, pathOf, type QueryOf, withQuery } from './http/connection.ts'

export type AuditEntry = z.infer<typeof EntryAnswer>

export type AuditFilter = QueryOf<ReturnType<typeof listQuery>>

/** Audit log. */
export const audit = ({ call, list }: OpenConnection) => ({
  /** Yields all matching entries, newest first by default. */
  all: (filter: AuditFilter = {}): EntryStream<AuditEntry> => list(pathOf('audit'), { limit: 100, ...filter }, 'entries'),
  /** Returns one page of entries, newest first by default. To continue, pass the last number as `before`, or as `after` with `order` asc. */
  list: async (filter: AuditFilter = {}): Promise<AuditEntry[]> =>
    (await call<z.infer<typeof ListAnswer>>('GET', withQuery(pathOf('audit'), filter))).entries,
  /** Verifies the hash chain; `head` is the end that an earlier verification returned. */
  verify: (head: { seq: number; hash: string } | null = null): Promise<z.infer<typeof VerificationAnswer>> =>
    call('GET', withQuery(pathOf('audit', 'verify'), { ...head })),
})
