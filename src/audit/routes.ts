import { z } from 'zod'
import type { App } from '../app.ts'
import { endTimestampText, integerText, moment } from '../http/input.ts'
import { CursorPagination, cursorField } from '../http/pages.ts'
import { admin, type Route } from '../http/route.ts'
import { viewOf } from '../http/view.ts'
import * as audit from './audit.ts'

const number = integerText(0, Number.MAX_SAFE_INTEGER)

export const listQuery = ({ config: { limits } }: App) =>
  z.object({
    actor: z.string().max(320).optional(),
    action: z.string().max(200).optional(),
    outcome: z.enum(['ok', 'refused', 'failed']).optional(),
    ip: z.string().max(64).optional(),
    from: moment.optional(),
    to: endTimestampText.optional(),
    after: number.optional(),
    before: number.optional(),
    order: z.enum(['asc', 'desc']).default('desc'),
    limit: integerText(1, limits.per_page_max).default(limits.per_page_max),
    cursor: cursorField,
  })

export const EntryAnswer = z.object({
  seq: z.int(),
  at: z.iso.datetime(),
  actor_id: z.uuid().nullable(),
  actor: z.string(),
  via: z.string(),
  ip: z.string(),
  action: z.string(),
  target: z.string(),
  outcome: z.enum(['ok', 'refused', 'failed']),
  code: z.string().nullable(),
  details: z.record(z.string(), z.unknown()),
  request_id: z.string(),
  hash: z.string(),
})
export const ListAnswer = z.object({ entries: z.array(EntryAnswer), pagination: CursorPagination })

const VerifyQuery = z
  .object({ seq: number, hash: z.string().regex(/^[0-9a-f]{64}$/, '64 hexadecimal digits') })
  .partial()
  .refine(({ seq, hash }) => (seq === undefined) === (hash === undefined), { path: ['hash'], message: 'seq and hash come together' })
const Head = z.object({ seq: z.int(), hash: z.string() })
export const VerificationAnswer = z.object({
  ok: z.boolean(),
  entries: z.int(),
  head: Head.nullable(),
  problem: z.object({ seq: z.int(), message: z.string() }).nullable(),
})

export const routes = (app: App): Route[] => [
  admin(
    'GET /api/audit',
    {
      summary: 'List entries of the audit log, newest first; `before`, or `after` with order=asc, continues from a sequence number',
      query: listQuery(app),
      answer: ListAnswer,
      isLarge: true,
    },
    async ({ query }) => {
      const { rows, next } = await audit.list(app, query)
      return { entries: rows.map(view), pagination: { next_cursor: next } }
    },
  ),
  admin(
    'GET /api/audit/verify',
    {
      summary: 'Verify the hash chain of the audit log; with `seq` and `hash` of an earlier head, also detect a truncated end',
      query: VerifyQuery,
      answer: VerificationAnswer,
      isLong: true,
    },
    async ({ query: { seq, hash } }) => {
      const verdict = await audit.verify(app, seq !== undefined && hash !== undefined ? { seq, hash } : undefined)
      return { ok: verdict.problem === null, ...verdict }
    },
  ),
]

const view = (entry: audit.Entry) => viewOf(EntryAnswer, { ...entry, details: JSON.parse(entry.details) as Record<string, unknown> })
