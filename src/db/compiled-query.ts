/** Compiles queries once. Compilation is a tenth of the cost of GET of one document (bench/api.ts). */
import { type Compilable, DummyDriver, Kysely, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler } from 'kysely'
import type { Db } from './pool.ts'
import type { Schema } from './schema.ts'

const compiler: Db = new Kysely<Schema>({
  dialect: {
    createDriver: () => new DummyDriver(),
    createAdapter: () => new PostgresAdapter(),
    createIntrospector: (db) => new PostgresIntrospector(db),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  },
})

/** Returns a function that runs a query compiled once. `build` is called once with placeholders and may use its arguments as values only. */
export function compileStatement<Values extends readonly unknown[], Row>(
  build: (db: Db, ...values: Values) => Compilable<Row>,
): (db: Db, ...values: Values) => Promise<Row[]> {
  const standIns = Array.from({ length: build.length - 1 }, () => ({}))
  const compiled = build(compiler, ...(standIns as unknown as Values)).compile()
  const positions = compiled.parameters.map((parameter) => standIns.indexOf(parameter as object))
  return async (db, ...values) => {
    const parameters = positions.map((place, at) => (place === -1 ? compiled.parameters[at] : values[place]))
    const { rows } = await db.executeQuery<Row>({ ...compiled, parameters })
    return rows
  }
}
