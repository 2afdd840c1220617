/** The database, and what it says of workers, jobs, sources, index and backups. */
import { sql } from 'kysely'
import { queue as stuck } from '../check/tables.ts'
import * as migrations from '../db/migrate.ts'
import { Failing, fail, NotHere, type Opinion, ok, type Question, warn } from './doctor.ts'
import type { Patient } from './installation.ts'
import { missingFolder } from './machine.ts'

const oldest = 15
/** Seconds. */
const day = 86_400

export const database = (patient: Patient): Question[] => [
  { id: 'database', about: 'PostgreSQL: reachable, its version', ask: () => reachable(patient) },
  { id: 'schema', about: 'the migrations', ask: () => schema(patient) },
  { id: 'clock', about: 'this clock and the one of the database', ask: () => clock(patient) },
  { id: 'locks', about: 'whether locks hold (a pooler of transactions breaks them)', ask: () => locks(patient) },
  { id: 'search', about: 'the search index', ask: () => search(patient) },
  { id: 'worker', about: 'whether anybody works', ask: () => worker(patient) },
  { id: 'queue', about: 'jobs that wait, fail or are stuck', ask: () => queue(patient) },
  { id: 'sources', about: 'syncs that are late or fail', ask: () => sources(patient) },
  { id: 'backup', about: 'when the last backup was made', ask: () => backup(patient) },
  { id: 'rehearsal', about: 'when a backup was last restored for a test', ask: () => rehearsal(patient) },
]

/** The database with a schema that can be asked. */
async function current(patient: Patient) {
  const opened = await patient.database().catch(() => {
    throw new NotHere('the database is out of reach')
  })
  const states = await migrations.loadStates(opened.db)
  if (states.some(({ applied_at, unknown }) => unknown || applied_at === null)) throw new NotHere('the schema is not current')
  return opened
}

async function reachable(patient: Patient): Promise<Opinion> {
  const { db, isEmbedded } = await patient.database().catch((error: Error) => {
    const { url } = patient.loaded.config.database
    // The embedded one says itself what keeps it from starting.
    if (url === '' || error instanceof NotHere) throw error
    throw new Failing(error.message, 'is it running, and is database.url right? dms config show database --origin')
  })
  const started = performance.now()
  const { rows } = await sql<{ version: string; number: number }>`
    select current_setting('server_version') as version, current_setting('server_version_num')::int as number`.execute(db)
  const ms = (performance.now() - started).toFixed(1)
  const { version = '', number = 0 } = rows[0] ?? {}
  if (number < oldest * 10_000) return fail(`PostgreSQL ${version} is too old`, `PostgreSQL ${oldest} or newer`)
  return ok(`PostgreSQL ${version}${isEmbedded ? ' of dms' : ''}, ${ms} ms`)
}

async function schema(patient: Patient): Promise<Opinion> {
  const { db } = await patient.database()
  const states = await migrations.loadStates(db)
  const newer = states.filter(({ unknown }) => unknown)
  if (newer[0])
    return fail(`the schema has ${newer[0].name}, which this dms does not know`, 'install the dms that was here before, or a newer one')
  const pending = states.filter(({ applied_at }) => applied_at === null)
  if (pending[0]) return fail(`${pending.length} migrations are pending, the first is ${pending[0].name}`, 'dms migrate')
  return ok(states.at(-1)?.name ?? 'empty')
}

async function clock(patient: Patient): Promise<Opinion> {
  const { db } = await patient.database()
  const before = Date.now()
  const { rows } = await sql<{ at: Date }>`select clock_timestamp() as at`.execute(db)
  const ours = (before + Date.now()) / 2
  const seconds = Math.round(Math.abs((rows[0]?.at.getTime() ?? ours) - ours) / 100) / 10
  const message = `the clocks of this machine and of the database are ${seconds} s apart`
  if (seconds > 60) return fail(message, 'run an NTP client on both')
  return seconds > 2 ? warn(message, 'run an NTP client on both') : ok(message)
}

async function locks(patient: Patient): Promise<Opinion> {
  const opened = await patient.database()
  const key = `doctor ${process.pid}`
  const [one, two] = await Promise.all([opened.connect('dms doctor'), opened.connect('dms doctor')])
  try {
    const take = `select pg_try_advisory_lock(hashtext('dms'), hashtext($1)) as got`
    const { rows: first } = await one.query<{ got: boolean }>(take, [key])
    await one.query('select')
    const { rows: second } = await two.query<{ got: boolean }>(take, [key])
    return first[0]?.got === true && second[0]?.got === false
      ? ok('locks are kept from statement to statement')
      : fail('locks are lost between statements', 'let dms speak to PostgreSQL itself, or through a pooler of sessions')
  } finally {
    await Promise.all([one.end(), two.end()])
  }
}

async function search(patient: Patient): Promise<Opinion> {
  const { db } = await current(patient)
  const app = await patient.app()
  await app.search.check()
  const { rows } = await sql<{ documents: number; waiting: number }>`
    select (select count(*) from documents) as documents,
      (select count(*) from jobs where kind in ('index', 'reindex') and status in ('pending', 'processing')) as waiting`.execute(db)
  const { documents = 0, waiting = 0 } = rows[0] ?? {}
  const { documents: indexed, missing, extra, outdated } = await app.search.status()
  if (missing + extra + outdated === 0) return ok(`${app.search.name}: all ${documents} documents`)
  if (waiting > 0) return ok(`${app.search.name}: ${indexed} of ${documents} documents, ${waiting} jobs are on their way`)
  const wrong = `${missing} missing, ${extra} too many, ${outdated} in an older form`
  return warn(`${indexed} of ${documents} documents are in the index as they should be: ${wrong}`, 'dms search reindex --if-needed')
}

async function worker(patient: Patient): Promise<Opinion> {
  const { db } = await current(patient)
  const { rows } = await sql<{ name: string; silent: number }>`
    select name, extract(epoch from now() - seen_at)::int as silent from workers order by seen_at desc`.execute(db)
  const alive = rows.filter(({ silent }) => silent < 120)
  if (alive.length > 0) return ok(alive.map(({ name }) => name).join(', '))
  const last = rows[0] ? ` (the last one was ${rows[0].name}, ${rows[0].silent} s ago)` : ''
  return warn(`nobody reads documents${last}`, 'dms serve, or dms worker')
}

async function queue(patient: Patient): Promise<Opinion> {
  const { db } = await current(patient)
  const app = await patient.app()
  const left = await Array.fromAsync(stuck(app))
  if (left.length > 0) {
    const mend = async () => {
      for (const { repair } of left) await repair?.()
      return `queued ${left.length} jobs again`
    }
    return fail(`${left.length} jobs were left by their workers`, 'dms check --checks queue --repair', mend)
  }
  const { rows } = await sql<{ pending: number; oldest: number; failed: number }>`
    select count(*) filter (where status = 'pending') as pending,
      coalesce(extract(epoch from now() - min(run_at) filter (where status = 'pending' and run_at <= now())), 0)::int as oldest,
      count(*) filter (where status = 'failed' and finished_at > now() - interval '1 day') as failed
    from jobs`.execute(db)
  const { pending = 0, oldest: age = 0, failed = 0 } = rows[0] ?? {}
  if (age > 3600) return warn(`${pending} jobs wait, the first for ${Math.floor(age / 60)} minutes`, 'more workers, or dms ocr queue')
  if (failed > 0) return warn(`${failed} jobs failed since yesterday`, 'dms ocr queue list --status failed')
  return ok(`${pending} jobs wait`)
}

async function sources(patient: Patient): Promise<Opinion> {
  const { db } = await current(patient)
  const { rows } = await sql<{ name: string; status: string; late: boolean }>`
    select name, status, sync_interval > 0 and coalesce(last_sync, created_at) < now() - 3 * sync_interval * interval '1 s' as late
    from sources where status <> 'disabled' order by name`.execute(db)
  const failing = rows.filter(({ status }) => status === 'error').map(({ name }) => name)
  if (failing.length > 0) return warn(`the last sync failed of ${failing.join(', ')}`, 'dms sources list')
  const late = rows.filter((row) => row.late).map(({ name }) => name)
  if (late.length > 0) return warn(`not synced for three times its interval: ${late.join(', ')}`, 'dms sources sync')
  return ok(`${rows.length} sources`)
}

async function backup(patient: Patient): Promise<Opinion> {
  const { db } = await current(patient)
  const { rows } = await sql<{ age: number }>`
    select extract(epoch from now() - last_success_at)::int as age from runs where name = 'backup'`.execute(db)
  const fix = 'dms backup create, every night from cron'
  const age = rows[0]?.age
  if (age === undefined) return (await missingFolder(patient.loaded.config.backup.path)) ?? warn('there was never a backup', fix)
  const hours = Math.floor(age / 3600)
  return age > 1.5 * day ? warn(`the last backup is ${hours} hours old`, fix) : ok(`made ${hours} hours ago`)
}

/** Days after which a rehearsal says nothing of the backups of today. */
const maxRehearsalDays = 35

async function rehearsal(patient: Patient): Promise<Opinion> {
  const { db } = await current(patient)
  const { rows } = await sql<{ name: string; days: number }>`
    select name, floor(extract(epoch from now() - last_success_at) / ${day})::int as days from runs where name in ('backup', 'rehearsal')`.execute(
    db,
  )
  const found = rows.find(({ name }) => name === 'rehearsal')
  const fix = 'dms backup rehearse, once a month from cron'
  if (found)
    return found.days > maxRehearsalDays
      ? warn(`the last rehearsal is ${found.days} days old`, fix)
      : ok(`succeeded ${found.days} days ago`)
  if (rows.length === 0) throw new NotHere('there is no backup yet')
  return warn('no backup was ever restored for a test', fix)
}
