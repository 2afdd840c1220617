import type { z } from 'zod'
import type { EntryAnswer, ListAnswer, listQuery, VerificationAnswer } from '../audit/routes.ts'
import { type EntryStream, type OpenConnection, pathOf, type QueryOf, withQuery } from './connection.ts'

export type AuditEntry = z.infer<typeof EntryAnswer>

export type AuditFilter = QueryOf<ReturnType<typeof listQuery>>

/** Who did what, when and from where. */
export const audit = ({ call, list }: OpenConnection) => ({
  /** All entries that fit, newest first, or with `order` asc the other way round. */
  all: (filter: AuditFilter = {}): EntryStream<AuditEntry> => list(pathOf('audit'), { limit: 100, ...filter }, 'entries'),
  /** Some entries, newest first; `before` the last one's number (with `order` asc: `after`) leads to what follows. */
  list: async (filter: AuditFilter = {}): Promise<AuditEntry[]> =>
    (await call<z.infer<typeof ListAnswer>>('GET', withQuery(pathOf('audit'), filter))).entries,
  /** Whether the log is whole; `head`: where it was seen to end before. */
  verify: (head: { seq: number; hash: string } | null = null): Promise<z.infer<typeof VerificationAnswer>> =>
    call('GET', withQuery(pathOf('audit', 'verify'), { ...head })),
})
