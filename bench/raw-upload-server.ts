/**
 * Peers of `bench/upload.ts`: a minimal server that hashes each body, writes it below the folder in the first argument, and flushes it. With a data
 * folder as second argument it also commits a row for each file to an embedded PostgreSQL in it, those of concurrent requests together.
 */
import { createHash, randomUUID } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import pg from 'pg'
import { shareNextRun } from '../src/concurrency.ts'
import { joinEmbedded } from '../src/db/embedded/embedded.ts'
import { openLog } from '../src/log/log.ts'

interface FileRow {
  name: string
  sha256: string
}

const [folder = '', dataDir] = process.argv.slice(2)
const store = dataDir === undefined ? async () => {} : await openRows(dataDir)

const server = createServer({ highWaterMark: 1 << 20 }, async (request, response) => {
  const hash = createHash('sha256')
  const hashing = new Transform({
    highWaterMark: 1 << 20,
    transform(chunk, _encoding, done) {
      hash.update(chunk)
      done(null, chunk)
    },
  })
  const name = randomUUID()
  await pipeline(request, hashing, createWriteStream(join(folder, name), { flush: true, highWaterMark: 1 << 20 }))
  const sha256 = hash.digest('hex')
  await store({ name, sha256 })
  response.statusCode = 201
  response.end(sha256)
})
server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port))

/** Returns a function that commits the row of a file. */
async function openRows(dataDir: string): Promise<(row: FileRow) => Promise<void>> {
  const postgres = await joinEmbedded({ dataDir, log: openLog({ level: 'silent', format: 'json' }) })
  process.once('SIGTERM', () => void client.end().then(() => postgres.release().then(() => process.exit())))
  const client = new pg.Client(postgres.ownerConnection)
  await client.connect()
  await client.query('create table raw_files (name text primary key, sha256 text unique, created_at timestamptz default now())')
  let waiting: FileRow[] = []
  const insert = shareNextRun(async () => {
    const values = [JSON.stringify(waiting)]
    waiting = []
    const text = 'insert into raw_files select * from jsonb_to_recordset($1) as file (name text, sha256 text)'
    await client.query({ name: 'insert', text, values })
  })
  return (row) => {
    waiting.push(row)
    return insert()
  }
}
