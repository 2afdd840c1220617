/** API views of database rows. */
import type { z } from 'zod'

/** A database row with the fields of a view. Timestamps may be Dates. */
type RowOf<View> = { [Field in keyof View]: View[Field] | (string extends View[Field] ? Date : never) }

/** Returns the fields of the schema, with timestamps in RFC 3339. Drops undefined fields and all other fields of the row. */
export function viewOf<Shape extends z.ZodRawShape>(schema: z.ZodObject<Shape>, row: RowOf<z.infer<z.ZodObject<Shape>>>) {
  const source: Record<string, unknown> = row
  const view: Record<string, unknown> = {}
  for (const field in schema.shape) {
    const value = source[field]
    if (value !== undefined) view[field] = value instanceof Date ? value.toISOString() : value
  }
  return view as z.infer<z.ZodObject<Shape>>
}
