/** Creates another, empty database in the PostgreSQL of a place. */
import { randomUUID } from 'node:crypto'
import pg from 'pg'
import type { Place } from '../place.ts'

export interface SecondDatabase {
  readonly name: string
  /** for DATABASE_URL */
  readonly url: string
  query<Row = Record<string, unknown>>(text: string): Promise<Row[]>
  /** Has no effect if it no longer exists. */
  drop(): Promise<void>
}

/** PostgreSQL of the place must be running. */
export async function openSecondDatabase(place: Place): Promise<SecondDatabase> {
  const name = `second_${randomUUID().replaceAll('-', '')}`
  await place.query(`create database ${name}`)
  const { host = '', port, user } = await place.connection()
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
    drop: async () => void (await place.query(`drop database if exists ${name} with (force)`)),
  }
}
