/** Runs statements: compiled once, in a savepoint, or in batches. */
import {
  type Compilable,
  DummyDriver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type RawBuilder,
  sql,
} from 'kysely'
import { shareNextRuns } from '../concurrency.ts'
import type { Db, Trx } from './pool.ts'
import { preparedMark } from './pooled.ts'
import type { Schema } from './schema.ts'

const compiler: Db = new Kysely<Schema>({
  dialect: {
    createDriver: () => new DummyDriver(),
    createAdapter: () => new PostgresAdapter(),
    createIntrospector: (db) => new PostgresIntrospector(db),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  },
})

/** Lets the statements of the transaction take as long as they need: for one that concerns all documents of a user, a source or a label. */
export async function allowLongStatements(trx: Trx): Promise<void> {
  await sql`set local statement_timeout = 0`.execute(trx)
}

/**
 * Returns a function that runs a query compiled and prepared once: compilation is a tenth of the cost of GET of one document (bench/api.ts).
 * `build` is called at the first use with placeholders and may use its arguments as values only.
 */
export function compileStatement<Values extends readonly unknown[], Row>(
  build: (db: Db, ...values: Values) => Compilable<Row>,
): (db: Db, ...values: Values) => Promise<Row[]> {
  const compile = () => {
    const placeholders = Array.from({ length: build.length - 1 }, () => ({}))
    const compiled = build(compiler, ...(placeholders as unknown as Values)).compile()
    return {
      compiled: { ...compiled, sql: `${preparedMark} ${compiled.sql}` },
      positions: compiled.parameters.map((parameter) => placeholders.indexOf(parameter as object)),
    }
  }
  let statement: ReturnType<typeof compile> | undefined
  return async (db, ...values) => {
    statement ??= compile()
    const { compiled, positions } = statement
    const parameters = positions.map((position, index) => (position === -1 ? compiled.parameters[index] : values[position]))
    const { rows } = await db.executeQuery<Row>({ ...compiled, parameters })
    return rows
  }
}

/**
 * Returns a statement whose concurrent calls with the same values share one run, which begins after all of them. It is for reads that many requests of
 * a user repeat. Callers must not change the rows.
 */
export function shareStatement<Values extends readonly (string | number | null)[], Row>(
  statement: (db: Db, ...values: Values) => Promise<Row[]>,
): typeof statement {
  const runs = new WeakMap<Db, (key: string) => Promise<Row[]>>()
  return (db, ...values) => {
    const share = runs.get(db) ?? shareNextRuns((key) => statement(db, ...(JSON.parse(key) as Values)))
    runs.set(db, share)
    return share(JSON.stringify(values))
  }
}

/** Runs `work` after a savepoint. If it throws, its writes are undone and the transaction stays usable. */
export async function inSavepoint<T>(trx: Trx, work: () => Promise<T>): Promise<T> {
  await sql`savepoint part`.execute(trx)
  try {
    const result = await work()
    await sql`release savepoint part`.execute(trx)
    return result
  } catch (error) {
    await sql`rollback to savepoint part; release savepoint part`.execute(trx).catch(() => {})
    throw error
  }
}

const deleteBatchSize = 5_000

export interface DeletionOptions {
  /** count what would be deleted, and delete nothing */
  readonly isDryRun?: boolean
  /** ends the deletion after the current batch; the number of deletions is returned all the same */
  readonly signal?: AbortSignal | undefined
}

/** Deletes the rows whose ids `idsToDelete` selects, in batches that hold locks briefly. Returns their number. */
export async function deleteInBatches(
  db: Db,
  table: string,
  idsToDelete: RawBuilder<unknown>,
  { isDryRun = false, signal }: DeletionOptions = {},
): Promise<number> {
  if (isDryRun) {
    const { rows } = await sql<{ count: number }>`select count(*)::int as count from (${idsToDelete}) old`.execute(db)
    return rows[0]?.count ?? 0
  }
  for (let total = 0; ; ) {
    const { numAffectedRows = 0n } =
      await sql`delete from ${sql.table(table)} where id in (${idsToDelete} limit ${deleteBatchSize})`.execute(db)
    total += Number(numAffectedRows)
    if (numAffectedRows < deleteBatchSize || signal?.aborted) return total
  }
}
