/** F35: workers of another version than the server: with a later schema or later jobs, or an earlier schema. */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { run as runDms } from '../../support/processes/run.ts'
import { openSecondDatabase } from '../database/second-database.ts'
import { type Fault, type FaultContext, type FaultResult, openFaultRun } from '../fault.ts'

const later = '9999_of_a_later_version'

export const mixedVersions: Fault = { id: 'F35', name: 'worker and server of different versions', run }

async function run({ openInstallation }: FaultContext): Promise<FaultResult> {
  // A separate installation, because its schema is changed.
  const installation = await openInstallation()
  const env = { DMS_WORKER_EMBEDDED: 'false' }
  const server = await installation.start({ env })
  const faultRun = await openFaultRun(installation)
  const { caller, expect, notes } = faultRun

  // A worker does not lease jobs of a later version.
  const worker = await installation.startWorker()
  const kind = 'kind_of_a_later_version'
  const job = randomUUID()
  const isTaken = await installation
    .query(`insert into jobs (id, kind, queue, payload, max_attempts) values ('${job}', '${kind}', 'maintenance', '{"later":true}', 3)`)
    .then(() => true)
    .catch(() => false)
  const { id } = await caller.uploadText()
  const end = async () => (await installation.query<{ status: string }>(`select status from documents where id = '${id}'`))[0]?.status
  for (const stop = performance.now() + 90_000; (await end()) !== 'completed' && performance.now() < stop; ) await sleep(100)
  expect((await end()) === 'completed', `the running worker reads no document any more: ${await end()}`)
  await sleep(3000)
  if (isTaken) {
    const [row] = await installation.query<{ status: string; attempts: number }>(`select status, attempts from jobs where id = '${job}'`)
    expect(row?.status === 'pending' && row.attempts === 0, `a job of an unknown kind is ${row?.status} after ${row?.attempts} attempts`)
    notes.push('a job of an unknown kind waits for a later version')
    await installation.query(`delete from jobs where id = '${job}'`)
  }

  // It stops when a later version migrates the database. A later worker processes new documents.
  await installation.query(`insert into migrations (name) values ('${later}')`)
  expect((await worker.ended) === 78, `the running worker ended with ${await worker.ended}`)
  // The last lines may arrive after the end of the process.
  const isExplained = () => worker.output.at(-1)?.includes(later) === true
  for (const stop = performance.now() + 10_000; !isExplained() && performance.now() < stop; ) await sleep(50)
  expect(isExplained(), `the running worker does not say why it ends: ${worker.output.at(-1)}`)
  const { id: next } = await caller.uploadText()
  await sleep(3000)
  const [waiting] = await installation.query<{ status: string }>(`select status from documents where id = '${next}'`)
  expect(waiting?.status === 'pending', `a document of the later version is ${waiting?.status}`)

  // A new start fails at once with the reason.
  await refuses('an older worker', ['worker'], {}, 78, later)
  await refuses('an older server', ['serve', '--port', '0'], {}, 78, later)
  await installation.query(`delete from migrations where name = '${later}'`)

  // A new worker refuses the schema of an earlier version unless it may migrate.
  const early = await openSecondDatabase(installation)
  const url = { DATABASE_URL: early.url }
  const made = await dms(['migrate', 'up', '--to', '0009_comments'], url)
  expect(made.code === 0, `dms migrate up --to ended with ${made.code}: ${made.stderr}`)
  await refuses('a newer worker', ['worker'], url, 8, 'migrate')
  await refuses('a newer server', ['serve', '--port', '0'], url, 8, 'migrate')
  await early.drop()

  await server.kill()
  const last = await installation.start()
  const result = await faultRun.finish('5 pairs of versions')
  await last.kill()
  await installation.remove()
  return result

  function dms(args: readonly string[], variables: Record<string, string>) {
    return runDms([...args, '--data-dir', installation.dataDir], {
      env: { DMS_STORAGE_MIN_FREE: '0', DMS_LOG_FORMAT: 'json', ...variables },
      timeout: 180_000,
    })
  }

  async function refuses(
    who: string,
    args: readonly string[],
    variables: Record<string, string>,
    code: number,
    word: string,
  ): Promise<void> {
    const ended = await dms(args, variables)
    expect(ended.code === code, `${who}: dms ${args[0]} ended with ${ended.code ?? ended.signal}, not ${code}: ${ended.stderr.slice(-300)}`)
    expect(ended.stderr.includes(word), `${who}: dms ${args[0]} does not say why: ${ended.stderr.slice(-300)}`)
  }
}
