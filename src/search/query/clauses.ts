/** Conditions on fields, as they come in. */
import { z } from 'zod'
import type { SearchClause, SearchSort } from '../../ports/search-engine.ts'

const maxClauses = 100
const maxValue = 1_000
const maxTogether = 10_000
const maxKey = 255

const fields = ['any', 'title', 'content', 'filename', 'labels', 'mime_type', 'status', 'source_id'] as const
const sortable = ['score', 'created_at', 'updated_at', 'title', 'size', 'ocr_confidence'] as const

const Field = z.union(
  [z.enum(fields), z.templateLiteral(['metadata.', z.string().min(1).max(maxKey)])],
  `one of ${fields.join(', ')}, metadata.KEY`,
)

const lengthOf = (text: string): number => [...text].length

/** Of one sign NFKC can make eighteen, and all of them are looked for. */
const normalLength = (text: string): number => text.normalize('NFKC').length

/** Of metadata also numbers and what is true or false. */
const Value = z
  .union([z.string(), z.number(), z.boolean()], 'a text, a number, true or false')
  .transform(String)
  .refine((text) => text.length <= 2 * maxValue && lengthOf(text) <= maxValue, `at most ${maxValue.toLocaleString('en')} characters`)
  .refine((text) => text.trim() !== '', 'is empty')

const Clause: z.ZodType<SearchClause> = z.object({
  field: Field,
  value: Value,
  type: z.enum(['match', 'contains', 'exact']).default('match'),
})

const clauses = z.array(Clause).max(maxClauses, `at most ${maxClauses} conditions`).default([])

/** What must, should and must not be. */
export const Clauses = z
  .object({ must: clauses, should: clauses, must_not: clauses })
  .refine(({ must, should, must_not }) => must.length + should.length + must_not.length <= maxClauses, `at most ${maxClauses} conditions`)
  .refine(
    ({ must, should, must_not }) =>
      [...must, ...should, ...must_not].reduce((sum, { value }) => sum + Math.max(value.length, normalLength(value)), 0) <= 2 * maxTogether,
    `the values have more than ${maxTogether.toLocaleString('en')} characters together`,
  )

/** The first says most; the best, then the newest first where nothing is said. */
export const Sort: z.ZodType<SearchSort[]> = z
  .array(z.object({ field: z.enum(sortable), order: z.enum(['asc', 'desc']).default('desc') }))
  .max(sortable.length)
  .default([])
  .transform((keys) => (keys.length > 0 ? keys : [{ field: 'score', order: 'desc' } as const]))
