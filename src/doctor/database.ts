/** Checks the database and the state of workers, jobs, sources, index and backups in it. */
import { access, constants } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { type RawBuilder, sql } from 'kysely'
import { queue as findAbandonedJobs, loadIndexState } from '../check/tables.ts'
import * as migrations from '../db/migrate.ts'
import type { Db } from '../db/pool.ts'
import { loadStoredBytes } from '../documents/versions/stored-bytes.ts'
import { formatBytes } from '../http/html.ts'
import { dms } from '../log/fix.ts'
import type { OpenedDatabase } from '../open-app.ts'
import { type Check, CheckFailure, type CheckResult, fail, ok, SkippedCheck, warn } from './doctor.ts'
import { type LazyInstallation, reachDatabase } from './installation.ts'
import { findExistingParent } from './machine.ts'
import { checkReplica } from './replica.ts'

/** Oldest supported major version of PostgreSQL. */
const minVersion = 15
const daySeconds = 86_400
/** Age after which a rehearsal proves nothing about current backups. */
const maxRehearsalDays = 35

/** Returns the checks of the database. Checks that read tables of dms are skipped if the schema is not current. */
export function databaseChecks(installation: LazyInstallation): Check[] {
  const withSchema = (check: (db: Db) => Promise<CheckResult>) => async () => check((await requireCurrentSchema(installation)).db)
  const withDatabase = (check: (opened: OpenedDatabase) => Promise<CheckResult>) => async () => check(await reachDatabase(installation))
  return [
    { id: 'database', about: 'connection to PostgreSQL and its version', run: () => checkConnection(installation) },
    { id: 'replica', about: 'lag of the replica of database.read_url', run: () => checkReplica(installation) },
    { id: 'schema', about: 'migrations', run: withDatabase(checkSchema) },
    { id: 'clock', about: 'clocks of this machine and of the database', run: withDatabase(checkClock) },
    { id: 'locks', about: 'advisory locks (transaction poolers break them)', run: withDatabase(checkLocks) },
    { id: 'admin', about: 'an admin who can sign in', run: withSchema((db) => checkAdmin(installation, db)) },
    { id: 'search', about: 'search index', run: withSchema(() => checkSearch(installation)) },
    { id: 'worker', about: 'running workers', run: withSchema(checkWorkers) },
    { id: 'queue', about: 'waiting, failed and abandoned jobs', run: withSchema((db) => checkQueue(installation, db)) },
    { id: 'sources', about: 'failed and overdue syncs', run: withSchema(checkSources) },
    { id: 'versions', about: 'size of old versions and of the trash', run: withSchema((db) => checkVersions(installation, db)) },
    { id: 'backup', about: 'age of the last backup', run: withSchema((db) => checkBackup(installation, db)) },
    { id: 'rehearsal', about: 'age of the last backup rehearsal', run: withSchema(checkRehearsal) },
  ]
}

/** Returns the database if its schema is current. Throws SkippedCheck otherwise. */
export async function requireCurrentSchema(installation: LazyInstallation) {
  const opened = await reachDatabase(installation)
  const states = await migrations.loadStates(opened.db)
  if (states.some(({ applied_at, unknown }) => unknown || applied_at === null)) throw new SkippedCheck('the schema is not current')
  return opened
}

async function checkConnection(installation: LazyInstallation): Promise<CheckResult> {
  const { db, isEmbedded } = await installation.database().catch((error: Error) => {
    const { url } = installation.loaded.config.database
    // Errors of the embedded database name their own cause.
    if (url === '' || error instanceof SkippedCheck) throw error
    throw new CheckFailure(error.message, ['start PostgreSQL, or correct database.url: ', dms`config show database --origin`])
  })
  const started = performance.now()
  const { version, number } = await selectRow<{ version: string; number: number }>(
    db,
    sql`select current_setting('server_version') as version, current_setting('server_version_num')::int as number`,
  )
  const ms = (performance.now() - started).toFixed(1)
  if (number < minVersion * 10_000) return fail(`PostgreSQL ${version} is too old`, `PostgreSQL ${minVersion} or newer`)
  return ok(`PostgreSQL ${version}${isEmbedded ? ' (embedded)' : ''}, ${ms} ms`)
}

async function checkSchema({ db }: OpenedDatabase): Promise<CheckResult> {
  const states = await migrations.loadStates(db)
  const newer = states.find(({ unknown }) => unknown)
  if (newer)
    return fail(`the schema has ${newer.name}, which this dms does not know`, 'install the previous version of dms, or a newer one')
  const pending = states.filter(({ applied_at }) => applied_at === null)
  if (pending[0]) return fail(`${pending.length} migrations are pending, the first is ${pending[0].name}`, dms`migrate`)
  return ok(states.at(-1)?.name ?? 'empty')
}

async function checkClock({ db }: OpenedDatabase): Promise<CheckResult> {
  const before = Date.now()
  const { at } = await selectRow<{ at: Date }>(db, sql`select clock_timestamp() as at`)
  const seconds = Math.round(Math.abs(at.getTime() - (before + Date.now()) / 2) / 100) / 10
  const message = `the clocks of this machine and of the database are ${seconds} s apart`
  if (seconds > 60) return fail(message, 'run an NTP client on both')
  return seconds > 2 ? warn(message, 'run an NTP client on both') : ok(message)
}

async function checkLocks(opened: OpenedDatabase): Promise<CheckResult> {
  const key = `doctor ${process.pid}`
  const [one, two] = await Promise.all([opened.connect('dms doctor'), opened.connect('dms doctor')])
  try {
    const lock = `select pg_try_advisory_lock(hashtext('dms'), hashtext($1)) as locked`
    const { rows: first } = await one.query<{ locked: boolean }>(lock, [key])
    await one.query('select')
    const { rows: second } = await two.query<{ locked: boolean }>(lock, [key])
    return first[0]?.locked === true && second[0]?.locked === false
      ? ok('advisory locks survive between statements')
      : fail('advisory locks are lost between statements', 'connect to PostgreSQL directly, or set the pooler to session mode')
  } finally {
    await Promise.all([one.end(), two.end()])
  }
}

async function checkAdmin({ loaded: { config } }: LazyInstallation, db: Db): Promise<CheckResult> {
  const { users, admins } = await selectRow<{ users: number; admins: number }>(
    db,
    sql`select count(*) as users, count(*) filter (where role = 'admin' and not disabled) as admins from users`,
  )
  if (admins > 0) return ok(`${admins} of ${users} users`)
  const setRole = dms`users set-role USER admin`
  const { method } = config.auth
  const fix = users > 0 ? setRole : method === 'oidc' ? ['sign in once, then: ', setRole] : [dms`serve`, ', which creates the first admin']
  const group = config.oidc.admin_group
  return warn(method === 'oidc' && group === '' ? 'no admin is enabled, and oidc.admin_group is not set' : 'no admin is enabled', fix)
}

async function checkSearch(installation: LazyInstallation): Promise<CheckResult> {
  const app = await installation.app()
  await app.search.check()
  const { documents, jobs, indexed, differences } = await loadIndexState(app)
  if (differences === null) return ok(`${app.search.name}: all ${documents} documents`)
  if (jobs > 0) return ok(`${app.search.name}: ${indexed} of ${documents} documents, ${jobs} jobs are queued`)
  return warn(`${indexed} of ${documents} documents are indexed: ${differences}`, dms`search reindex --if-needed`)
}

async function checkWorkers(db: Db): Promise<CheckResult> {
  const { rows } = await sql<{ name: string; silent: number }>`
    select name, extract(epoch from now() - seen_at)::int as silent from workers order by seen_at desc`.execute(db)
  // A heartbeat in the future was sent before the clock was set back.
  const alive = rows.filter(({ silent }) => Math.abs(silent) < 120)
  if (alive.length > 0) return ok(alive.map(({ name }) => name).join(', '))
  const past = rows.find(({ silent }) => silent >= 0)
  const last = past ? ` (the last heartbeat was from ${past.name}, ${past.silent} s ago)` : ''
  return warn(`no worker is running${last}`, [dms`serve`, ', or ', dms`worker`])
}

async function checkQueue(installation: LazyInstallation, db: Db): Promise<CheckResult> {
  const abandoned = await Array.fromAsync(findAbandonedJobs(await installation.app()))
  if (abandoned.length > 0) {
    const requeue = async () => {
      for (const { repair } of abandoned) await repair?.()
      return `queued ${abandoned.length} jobs again`
    }
    return fail(`${abandoned.length} jobs were abandoned by their workers`, dms`check --checks queue --repair`, requeue)
  }
  const { pending, age, failed } = await selectRow<{ pending: number; age: number; failed: number }>(
    db,
    sql`select count(*) filter (where status = 'pending') as pending,
      coalesce(extract(epoch from now() - min(run_at) filter (where status = 'pending' and run_at <= now())), 0)::int as age,
      count(*) filter (where status = 'failed' and finished_at > now() - interval '1 day'
        and exists (select from live_documents where live_documents.id = document_id and live_documents.status = 'failed')) as failed
    from jobs where status <> 'completed'`,
  )
  if (age > 3600)
    return warn(`${pending} jobs wait, the first for ${Math.floor(age / 60)} minutes`, ['start more workers, or see ', dms`ocr queue`])
  if (failed > 0) return warn(`jobs that failed in the last 24 hours: ${failed}`, dms`ocr queue list --status failed`)
  return ok(`${pending} jobs wait`)
}

async function checkSources(db: Db): Promise<CheckResult> {
  const { rows } = await sql<{ name: string; has_failed: boolean; is_overdue: boolean }>`
    select name, status = 'error' as has_failed,
      sync_interval > 0 and coalesce(last_sync, created_at) < now() - 3 * sync_interval * interval '1 s' as is_overdue
    from sources where status <> 'disabled' order by name`.execute(db)
  const listNames = (column: 'has_failed' | 'is_overdue') => rows.flatMap((row) => (row[column] ? [row.name] : [])).join(', ')
  const failed = listNames('has_failed')
  if (failed !== '') return warn(`the last sync failed: ${failed}`, dms`sources list`)
  const overdue = listNames('is_overdue')
  if (overdue !== '') return warn(`not synced for three times the interval: ${overdue}`, dms`sources sync --due`)
  return ok(`${rows.length} sources`)
}

async function checkBackup({ loaded: { config } }: LazyInstallation, db: Db): Promise<CheckResult> {
  const age = await loadRunAge(db, 'backup')
  const create = dms`backup create`
  const fix = ['run ', create, ' every night from cron']
  const { path } = config.backup
  const parent = await findExistingParent(path)
  const { username } = userInfo()
  if (!(await isWritable(parent)))
    return warn(
      `"${username}" cannot write to ${parent}, where backup.path is`,
      `as root: install -d -o ${username} -m 0700 '${path}'; or set backup.path`,
    )
  if (age === null) return warn('no backup was ever made', [create, '; ', ...fix])
  if (age < 0) return warn('the last backup has a time in the future: the clock was ahead', [create, '; ', ...fix])
  const hours = Math.floor(age / 3600)
  return age > 1.5 * daySeconds ? warn(`the last backup is ${hours} hours old`, fix) : ok(`made ${hours} hours ago`)
}

async function checkRehearsal(db: Db): Promise<CheckResult> {
  const age = await loadRunAge(db, 'rehearsal')
  const fix = ['run ', dms`backup rehearse`, ' once a month from cron']
  if (age === null) {
    if ((await loadRunAge(db, 'backup')) === null) throw new SkippedCheck('there is no backup yet')
    return warn('no backup was ever rehearsed', fix)
  }
  if (age < 0) return warn('the last rehearsal has a time in the future: the clock was ahead', fix)
  const days = Math.floor(age / daySeconds)
  return days > maxRehearsalDays ? warn(`the last rehearsal is ${days} days old`, fix) : ok(`succeeded ${days} days ago`)
}

/** Returns the seconds since the last successful run, negative for a time in the future; null for none. */
async function loadRunAge(db: Db, name: 'backup' | 'rehearsal'): Promise<number | null> {
  const { rows } = await sql<{ age: number | null }>`
    select extract(epoch from now() - last_success_at)::int as age from runs where name = ${name}`.execute(db)
  return rows[0]?.age ?? null
}

const isWritable = (folder: string): Promise<boolean> =>
  access(folder, constants.W_OK | constants.X_OK).then(
    () => true,
    () => false,
  )

/** Runs a query that returns exactly one row. */
const selectRow = async <T>(db: Db, query: RawBuilder<unknown>): Promise<T> => (await query.execute(db)).rows[0] as T

/** Warns if old versions, which are not limited, take more than half of the document store. */
async function checkVersions({ loaded }: LazyInstallation, db: Db): Promise<CheckResult> {
  const { keep_versions, version_days } = loaded.config.documents
  const { total, oldVersions, oldVersionCount, trash, trashedCount } = await loadStoredBytes(db)
  const text = `${oldVersionCount} old versions take ${formatBytes(oldVersions)}, ${trashedCount} documents in the trash ${formatBytes(trash)}, of ${formatBytes(total)}`
  if (oldVersions > total / 2 && keep_versions === 0 && version_days === 0)
    return warn(`${text}; no old version is ever removed`, 'set documents.keep_versions or documents.version_days')
  return ok(text)
}
