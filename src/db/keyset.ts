/** Keyset pagination: a page begins after the sort keys of the last row of the previous page. */
import { type Expression, type RawBuilder, type SelectQueryBuilder, sql } from 'kysely'
import { isCalendarDate } from '../calendar.ts'
import { isCanonicalId } from '../id.ts'

interface KeyType {
  /** Default: the column itself. */
  select?(column: RawBuilder<unknown>): RawBuilder<unknown>
  parse(value: unknown): RawBuilder<unknown>
  isValid(value: unknown): boolean
}

const types = {
  /** text of UTC without a zone, to the microsecond */
  timestamp: {
    select: (column) => sql`${column} at time zone 'UTC'`,
    parse: (value) => sql`${`${value}Z`}::timestamptz`,
    isValid: (value) => typeof value === 'string' && isTimestamp(value),
  },
  date: {
    parse: (value) => sql`${value}::date`,
    isValid: (value) => typeof value === 'string' && isCalendarDate(value),
  },
  text: {
    parse: (value) => sql`${value}::text`,
    isValid: (value) => typeof value === 'string' && !value.includes('\0') && value.isWellFormed(),
  },
  integer: { parse: (value) => sql`${value}::bigint`, isValid: Number.isSafeInteger },
  real: {
    parse: (value) => sql`${value}::real`,
    isValid: (value) => typeof value === 'number' && (value === 0 || (Math.abs(value) > 1e-37 && Math.abs(value) < 1e38)),
  },
  id: {
    parse: (value) => sql`${value}::uuid`,
    isValid: (value) => typeof value === 'string' && isCanonicalId(value),
  },
} as const satisfies Record<string, KeyType>

/** One sort key of a list. */
export interface SortKey {
  /** a column as `documents.created_at`, or an expression */
  readonly by: string | RawBuilder<unknown>
  readonly type: keyof typeof types
  readonly order: 'asc' | 'desc'
  /** position of null; omitted for columns that are never null, whose indexes have the default order */
  readonly nulls?: 'first' | 'last'
  /** length of the prefix that sorts first and has an index; for texts that can be too long for one */
  readonly prefixLength?: number
}

/** A row with its sort keys. */
export interface RowWithCursorKey {
  /** the values of the sort keys, as a JSON array */
  cursor_key: string
}

/** The order of a list. The last sort key is unique, so that the order is total. */
export interface Keyset {
  readonly keys: readonly SortKey[]
  /** Expression that selects the sort keys of a row. */
  readonly key: ReturnType<RawBuilder<string>['as']>
  orderBy<Q>(query: Q): Q
  /** Returns the condition that a row comes after these sort keys. */
  isAfter(position: readonly unknown[]): Expression<boolean>
  /** Returns whether PostgreSQL accepts each value as the type of its sort key. */
  isPosition(values: readonly unknown[]): boolean
}

/** Returns the order for sort keys. */
export function keyset(...keys: readonly SortKey[]): Keyset {
  const columns = keys.map(({ by }) => (typeof by === 'string' ? sql.ref<unknown>(by) : by))
  const parts = keys.map(({ type }, index) => {
    const { select }: KeyType = types[type]
    return select ? select(columns[index]!) : columns[index]!
  })
  const withPrefixes = (values: readonly RawBuilder<unknown>[]) =>
    keys.flatMap(({ prefixLength }, index) => {
      const value = values[index]!
      return prefixLength === undefined ? [value] : [sql`left(${value}, ${sql.lit(prefixLength)})`, value]
    })
  return {
    keys,
    key: sql<string>`json_build_array(${sql.join(parts)})::text`.as('cursor_key') as Keyset['key'],
    orderBy: <Q>(query: Q) =>
      keys.reduce<AnyQuery>((ordered, { order, nulls, prefixLength }, index) => {
        const column = columns[index]!
        const prefixed = prefixLength === undefined ? ordered : ordered.orderBy(sql`left(${column}, ${sql.lit(prefixLength)})`, order)
        return prefixed.orderBy(column, (by) => {
          const directed = order === 'asc' ? by.asc() : by.desc()
          if (nulls === undefined) return directed
          return nulls === 'first' ? directed.nullsFirst() : directed.nullsLast()
        })
      }, query as AnyQuery) as Q,
    isAfter(position) {
      const values = keys.map(({ type }, index) => (position[index] === null ? sql`null` : types[type].parse(position[index])))
      const [first] = keys
      // An index scan can begin at a comparison of rows.
      if (keys.every(({ order, nulls }) => order === first?.order && nulls === undefined))
        return sql<boolean>`(${sql.join(withPrefixes(columns))}) ${sql.raw(first?.order === 'asc' ? '>' : '<')} (${sql.join(withPrefixes(values))})`
      const steps = keys.map((key, index) => {
        const equal = columns.slice(0, index).map((column, before) => sql`${column} is not distinct from ${values[before]}`)
        return sql`(${sql.join([...equal, isBehind(key, columns[index]!, position[index], values[index])], sql` and `)})`
      })
      return sql<boolean>`(${sql.join(steps, sql` or `)})`
    },
    isPosition: (values) =>
      values.length === keys.length &&
      keys.every(({ type, nulls }, index) => (values[index] === null ? nulls !== undefined : types[type].isValid(values[index]))),
  }
}

// biome-ignore lint/suspicious/noExplicitAny: any query has an order, whatever it selects.
type AnyQuery = SelectQueryBuilder<any, any, any>

function isBehind({ order, nulls }: SortKey, column: RawBuilder<unknown>, key: unknown, value: unknown): RawBuilder<unknown> {
  if (key === null) return nulls === 'first' ? sql`${column} is not null` : sql`false`
  const behind = sql`${column} ${sql.raw(order === 'asc' ? '>' : '<')} ${value}`
  return nulls === 'last' ? sql`(${behind} or ${column} is null)` : behind
}

/** Returns whether a text is an existing date and time of a four-digit year. */
function isTimestamp(value: string): boolean {
  if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?$/.test(value)) return false
  const date = new Date(`${value}Z`)
  return !Number.isNaN(date.getTime()) && date.getUTCFullYear() > 0 && date.toISOString().slice(0, 19) === value.slice(0, 19)
}

/** Creates the order of a table by its creation times, then by its ids. */
export const byCreation = (table: string, order: 'asc' | 'desc'): Keyset =>
  keyset({ by: `${table}.created_at`, type: 'timestamp', order }, { by: `${table}.id`, type: 'id', order })
