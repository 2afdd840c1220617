/** Schemas of the conditions and the order of an advanced search. */
import { z } from 'zod'
import type { SearchClause, SearchSort } from '../../ports/search-engine.ts'

const maxClauses = 100
const maxValueLength = 1_000
const maxTotalLength = 10_000
const maxKeyLength = 255

const fields = ['any', 'title', 'content', 'filename', 'labels', 'mime_type', 'status', 'source_id'] as const
const sortable = ['score', 'created_at', 'updated_at', 'title', 'size', 'ocr_confidence', 'document_date'] as const

const Field = z.union(
  [z.enum(fields), z.templateLiteral(['metadata.', z.string().min(1).max(maxKeyLength)])],
  `one of ${fields.join(', ')}, metadata.KEY`,
)

/** Metadata values can be numbers and booleans. */
const Value = z
  .union([z.string(), z.number(), z.boolean()], 'a text, a number, true or false')
  .transform(String)
  .refine((text) => text.length <= 2 * maxValueLength && [...text].length <= maxValueLength, `at most ${maxValueLength} characters`)
  .refine((text) => text.trim() !== '', 'is empty')

const Clause: z.ZodType<SearchClause> = z.object({
  field: Field,
  value: Value,
  type: z.enum(['match', 'contains', 'exact']).default('match'),
})

const distinct = (clauses: SearchClause[]): SearchClause[] => [
  ...new Map(clauses.map((clause) => [JSON.stringify([clause.field, clause.type, clause.value]), clause])).values(),
]

const clauses = z.array(Clause).max(maxClauses, `at most ${maxClauses} conditions`).default([])

/** Returns how many characters of a value count towards the limit. Normalization can turn one character into eighteen. */
const countedLength = ({ value }: SearchClause): number => Math.max([...value].length, [...value.normalize('NFKC')].length)

/** Clauses of a boolean query. Equal ones count once. */
export const Clauses = z
  .object({ must: clauses, should: clauses, must_not: clauses })
  .refine(({ must, should, must_not }) => must.length + should.length + must_not.length <= maxClauses, `at most ${maxClauses} conditions`)
  .refine(
    ({ must, should, must_not }) =>
      [...must, ...should, ...must_not].reduce((sum, clause) => sum + countedLength(clause), 0) <= maxTotalLength,
    `the values have more than ${maxTotalLength} characters together`,
  )
  .transform(({ must, should, must_not }) => ({ must: distinct(must), should: distinct(should), must_not: distinct(must_not) }))

/** Sort keys, the most significant first. Default: by score, then the newest first. */
export const Sort: z.ZodType<SearchSort[]> = z
  .array(z.object({ field: z.enum(sortable), order: z.enum(['asc', 'desc']).default('desc') }))
  .max(sortable.length)
  .default([])
  .transform((keys) => (keys.length > 0 ? keys : [{ field: 'score', order: 'desc' } as const]))
