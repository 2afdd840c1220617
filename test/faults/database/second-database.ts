/** Creates a second, empty database in the PostgreSQL of an installation. */
import { randomUUID } from 'node:crypto'
import pg from 'pg'
import type { Installation } from '../installation.ts'

export interface SecondDatabase {
  readonly name: string
  /** for DATABASE_URL */
  readonly url: string
  query<Row = Record<string, unknown>>(text: string): Promise<Row[]>
  /** Drops the database. Has no effect if it no longer exists. */
  drop(): Promise<void>
}

/** Creates the database. PostgreSQL must be running. */
export async function openSecondDatabase(installation: Installation): Promise<SecondDatabase> {
  const name = `second_${randomUUID().replaceAll('-', '')}`
  await installation.query(`create database ${name}`)
  const { host = '', port, user } = await installation.connection()
  return {
    name,
    url: `postgres://${user}@localhost/${name}?host=${encodeURIComponent(host)}&port=${port}`,
    async query<Row>(text: string) {
      const client = new pg.Client({ host, port, user, database: name })
      await client.connect()
      try {
        return (await client.query(text)).rows as Row[]
      } finally {
        await client.end()
      }
    },
    drop: async () => void (await installation.query(`drop database if exists ${name} with (force)`)),
  }
}
