/** One query on the lane. A prepared one asks for the names and types of its columns the first time only: written and read again with each answer, they cost as much as the row. */
import pg from 'pg'

export interface Read {
  /** of the prepared statement; undefined: not prepared */
  name: string | undefined
  text: string
  values: readonly unknown[]
}

/** Columns in the order of the row, and what makes values of their texts. */
type Columns = readonly { name: string; parse: (text: string) => unknown }[]

interface Field {
  name: string
  dataTypeID: number
}

/** pg's Query as far as it is overridden here: what is not in its types, but in the version that package.json pins. */
interface Inside {
  callback(error: Error | null): void
  prepare(connection: pg.Connection): void
  handleError(error: Error, connection: pg.Connection): void
}
const Query = pg.Query as unknown as new (config: object, values: unknown[], callback: (error: Error | null) => void) => pg.Query & Inside

/** Makes the function that sends reads over one connection; it must be a new one after a reconnect, because columns may have changed. */
export function openReader(client: pg.Client, types: pg.CustomTypesConfig): (read: Read) => Promise<unknown[]> {
  const columnsOf = new Map<string, Columns>()
  const silent = Object.create(client.connection, { describe: { value: () => {} } }) as pg.Connection

  class OneRead extends Query {
    readonly found: unknown[] = []
    readonly statement: string | undefined
    columns: Columns | undefined

    constructor({ name, text, values }: Read, done: (error: Error | null) => void) {
      super({ name, text }, values as unknown[], done)
      this.statement = name
      this.columns = columnsOf.get(name ?? '')
    }

    override prepare(connection: pg.Connection) {
      super.prepare(this.columns ? silent : connection)
    }

    handleRowDescription({ fields }: { fields: Field[] }) {
      this.columns = fields.map(({ name, dataTypeID }) => ({ name, parse: types.getTypeParser(dataTypeID, 'text') }))
      if (this.statement) columnsOf.set(this.statement, this.columns)
    }

    handleDataRow({ fields }: { fields: (string | null)[] }) {
      const columns = this.columns as Columns
      const row: Record<string, unknown> = {}
      for (let at = 0; at < columns.length; at++) {
        const text = fields[at] as string | null
        const { name, parse } = columns[at] as Columns[number]
        row[name] = text === null ? null : parse(text)
      }
      this.found.push(row)
    }

    handleCommandComplete() {}
  }

  let isHeld = false
  /** Queries of one turn of the event loop leave together: on a busy server one write for many, which spares both sides most of their system calls. */
  const hold = () => {
    if (isHeld) return
    isHeld = true
    const { stream } = client.connection
    stream.cork()
    setImmediate(() => {
      isHeld = false
      stream.uncork()
    })
  }

  return (read) =>
    new Promise((resolve, reject) => {
      hold()
      const one = new OneRead(read, (error) => (error ? reject(error) : resolve(one.found)))
      client.query(one)
    })
}
