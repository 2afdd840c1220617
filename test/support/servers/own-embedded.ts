/** A process that owns the embedded PostgreSQL of the data folder in its argument until it receives standard input. */
import { joinEmbedded } from '../../../src/db/embedded/embedded.ts'
import { openLog } from '../../../src/log/log.ts'

const postgres = await joinEmbedded({ dataDir: process.argv[2]!, log: openLog({ level: 'silent', format: 'json' }) })
process.stdout.write('in\n')
for await (const _ of process.stdin) break
await postgres.release()
process.stdout.write('out\n')
