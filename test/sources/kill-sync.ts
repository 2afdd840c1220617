/** Kills `dms sources sync` at twenty points (or as many as the first argument says) of one sync, then lets it end: `npm run test:kill-sync`. */
import { chmod, mkdir, mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { joinEmbedded } from '../../src/db/embedded/embedded.ts'
import { openLog } from '../../src/log/log.ts'
import { killSync } from '../support/processes/kill-sync.ts'
import { run } from '../support/processes/run.ts'

const points = Number(process.argv[2] ?? 20)
const folder = await realpath(await mkdtemp(join(tmpdir(), 'dms-kill-sync-')))
// Under root the database runs as another user, who must be able to enter the folder.
await chmod(folder, 0o711)
const root = join(folder, 'share')
const dataDir = join(folder, 'data')
await mkdir(root)
const env = { DMS_DATA_DIR: dataDir, DMS_SOURCES_LOCAL_ROOTS: root, DMS_STORAGE_MIN_FREE: '0', DMS_OCR_ENABLED: 'false' }
try {
  const person = ['--username', 'ops', '--email', 'ops@example.org', '--role', 'admin', '--generate-password']
  await run(['users', 'add', '--init', ...person], { env, timeout: 60_000 })
  const add = ['sources', 'add', '--name', 'share', '--type', 'local_folder', '--address', root, '--owner', 'ops', '-o', 'id']
  const { stdout, stderr } = await run(add, { env })
  const id = stdout.trim()
  if (!id) throw new Error(stderr)
  const embedded = await joinEmbedded({ dataDir, log: openLog({ level: 'warn', format: 'pretty' }) })
  const client = new pg.Client(embedded.connection)
  await client.connect()
  const query = async <Row>(text: string) => (await client.query(text)).rows as Row[]
  const wrong = await killSync({ env, query, source: { id, name: 'share' }, root, points })
  await client.end()
  await embedded.release()
  const good = `killed at ${points} points: nothing lost, nothing twice, nothing fetched again`
  process.stdout.write(`${wrong.length === 0 ? good : wrong.join('\n')}\n`)
  if (wrong.length > 0) process.exitCode = 1
} finally {
  await rm(folder, { recursive: true, force: true })
}
