/** API views of database rows. */
import type { z } from 'zod'

/** Row of a view: it may have a Date where the view has a timestamp. */
type RowOf<View> = { [Field in keyof View]: View[Field] | (string extends View[Field] ? Date : never) }

/** Returns the fields of the schema, with timestamps in RFC 3339. Drops all other fields of the row. */
export function viewOf<Shape extends z.ZodRawShape>(schema: z.ZodObject<Shape>, row: RowOf<z.infer<z.ZodObject<Shape>>>) {
  const source: Record<string, unknown> = row
  const entries = Object.keys(schema.shape).map((field) => {
    const value = source[field]
    return [field, value instanceof Date ? value.toISOString() : value]
  })
  return Object.fromEntries(entries) as z.infer<z.ZodObject<Shape>>
}
