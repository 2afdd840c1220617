/** Peer of `bench/upload.ts`: a minimal server that hashes each body, writes it below the folder in the first argument, and flushes it. */
import { createHash, randomUUID } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'

const folder = process.argv[2]!

const server = createServer({ highWaterMark: 1 << 20 }, async (request, response) => {
  const hash = createHash('sha256')
  const hashing = new Transform({
    highWaterMark: 1 << 20,
    transform(chunk, _encoding, done) {
      hash.update(chunk)
      done(null, chunk)
    },
  })
  await pipeline(request, hashing, createWriteStream(join(folder, randomUUID()), { flush: true, highWaterMark: 1 << 20 }))
  response.statusCode = 201
  response.end(hash.digest('hex'))
})
server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port))
