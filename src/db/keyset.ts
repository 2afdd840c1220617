/** Keyset pagination: a page begins after the sort keys of the last row of the page before, and not at an offset. */
import { type Expression, type RawBuilder, type SelectQueryBuilder, sql } from 'kysely'

const types = {
  /** text of UTC without a zone, to the microsecond */
  timestamp: {
    key: (column: RawBuilder<unknown>) => sql`${column} at time zone 'UTC'`,
    value: (value: unknown) => sql`${`${value}Z`}::timestamptz`,
    isValid: (value: unknown) => typeof value === 'string' && isTimestamp(value),
  },
  text: {
    key: (column: RawBuilder<unknown>) => column,
    value: (value: unknown) => sql`${value}::text`,
    isValid: (value: unknown) => typeof value === 'string' && !value.includes('\0') && value.isWellFormed(),
  },
  integer: {
    key: (column: RawBuilder<unknown>) => column,
    value: (value: unknown) => sql`${value}::bigint`,
    isValid: Number.isSafeInteger,
  },
  real: {
    key: (column: RawBuilder<unknown>) => column,
    value: (value: unknown) => sql`${value}::real`,
    isValid: (value: unknown) => typeof value === 'number' && (value === 0 || (Math.abs(value) > 1e-37 && Math.abs(value) < 1e38)),
  },
  id: {
    key: (column: RawBuilder<unknown>) => column,
    value: (value: unknown) => sql`${value}::uuid`,
    isValid: (value: unknown) => typeof value === 'string' && /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(value),
  },
} as const

/** One sort key of a list. */
export interface SortKey {
  /** a column as `documents.created_at`, or an expression */
  readonly by: string | RawBuilder<unknown>
  readonly type: keyof typeof types
  readonly order: 'asc' | 'desc'
  /** where null comes; left out for what is never null, whose index does not know nulls */
  readonly nulls?: 'first' | 'last'
}

/** A row with its sort keys. */
export interface RowWithCursorKey {
  /** the values of the sort keys, as a JSON array */
  cursor_key: string
}

/** The order of a list. The last sort key is unique, so that the order is total. */
export interface Keyset {
  readonly keys: readonly SortKey[]
  /** the sort keys of a row, to be selected */
  readonly key: ReturnType<RawBuilder<string>['as']>
  orderBy<Q>(query: Q): Q
  /** Returns the condition that a row comes after these sort keys. */
  isAfter(place: readonly unknown[]): Expression<boolean>
  /** Returns whether these can be sort keys of a row: PostgreSQL accepts each value as its type. */
  isPosition(values: readonly unknown[]): boolean
}

/** Returns the order for sort keys. */
export function keyset(...keys: readonly SortKey[]): Keyset {
  const columns = keys.map(({ by }) => (typeof by === 'string' ? sql.ref<unknown>(by) : by))
  const parts = keys.map(({ type }, at) => types[type].key(columns[at] as RawBuilder<unknown>))
  return {
    keys,
    key: sql<string>`json_build_array(${sql.join(parts)})::text`.as('cursor_key') as Keyset['key'],
    orderBy: <Q>(query: Q) =>
      keys.reduce<AnyQuery>(
        (ordered, { order, nulls }, at) =>
          ordered.orderBy(columns[at] as RawBuilder<unknown>, (by) => {
            const directed = order === 'asc' ? by.asc() : by.desc()
            if (nulls === undefined) return directed
            return nulls === 'first' ? directed.nullsFirst() : directed.nullsLast()
          }),
        query as AnyQuery,
      ) as Q,
    isAfter(place) {
      const values = keys.map(({ type }, at) => (place[at] === null ? sql`null` : types[type].value(place[at])))
      const [first] = keys
      // One comparison of rows is what an index can begin at.
      if (keys.every(({ order, nulls }) => order === first?.order && nulls === undefined))
        return sql<boolean>`(${sql.join(columns)}) ${sql.raw(first?.order === 'asc' ? '>' : '<')} (${sql.join(values)})`
      const steps = keys.map((key, at) => {
        const same = columns.slice(0, at).map((column, before) => sql`${column} is not distinct from ${values[before]}`)
        return sql`(${sql.join([...same, isBehind(key, columns[at] as RawBuilder<unknown>, place[at], values[at])], sql` and `)})`
      })
      return sql<boolean>`(${sql.join(steps, sql` or `)})`
    },
    isPosition: (values) =>
      values.length === keys.length &&
      keys.every(({ type, nulls }, at) => (values[at] === null ? nulls !== undefined : types[type].isValid(values[at]))),
  }
}

// biome-ignore lint/suspicious/noExplicitAny: any query has an order, whatever it selects.
type AnyQuery = SelectQueryBuilder<any, any, any>

function isBehind({ order, nulls }: SortKey, column: RawBuilder<unknown>, place: unknown, value: unknown): RawBuilder<unknown> {
  if (place === null) return nulls === 'first' ? sql`${column} is not null` : sql`false`
  const behind = sql`${column} ${sql.raw(order === 'asc' ? '>' : '<')} ${value}`
  return nulls === 'last' ? sql`(${behind} or ${column} is null)` : behind
}

/** Returns whether a text is an existing date and time of a four-digit year. */
function isTimestamp(value: string): boolean {
  if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?$/.test(value)) return false
  const date = new Date(`${value}Z`)
  return !Number.isNaN(date.getTime()) && date.getUTCFullYear() > 0 && date.toISOString().slice(0, 19) === value.slice(0, 19)
}
