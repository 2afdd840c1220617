/** F15: PostgreSQL has no free connection, or accepts no writes. */
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { type Caller, mixedLoad, openCaller } from '../caller.ts'
import { type Fault, type FaultContext, type FaultResult, openFaultRun } from '../fault.ts'
import { type Installation, password } from '../installation.ts'
import type { Ledger } from '../ledger.ts'

/** maximum milliseconds until the server answers as usual, on a busy machine */
const timeoutMs = 60_000

export const unwillingDatabase: Fault = { id: 'F15', name: 'PostgreSQL without free connections; read-only', run }

async function run({ installation, isShort }: FaultContext): Promise<FaultResult> {
  const seconds = isShort ? 4 : 30
  // A limit of calls, which are counted in the database.
  const env = { DMS_DATABASE_CONNECT_TIMEOUT: '2s', DMS_WORKER_LEASE: '5s', DMS_API_CALLS_PER_MINUTE: '100000' }
  const server = await installation.start({ env })
  const faultRun = await openFaultRun(installation)
  const { caller, ledger, expect, notes } = faultRun
  await caller.uploadText()
  const [id = ''] = ledger.uploads.keys()
  const { reader, program } = await openReaders(installation, caller, ledger)

  const release = await takeAllConnections(installation)
  const stop = new AbortController()
  const load = mixedLoad(caller, ledger, { signal: stop.signal, concurrency: 4 })
  await sleep(seconds * 1000)
  stop.abort()
  await load
  notes.push(`without connections: slowest answer ${(ledger.slowest() / 1000).toFixed(1)} s`)
  await release()
  await comesBack('connections were free again')

  await installation.query('alter database dms set default_transaction_read_only = on')
  await cutAll(installation)
  const answers = {
    list: caller.list,
    download: () => caller.download(id),
    search: caller.search,
    'list of a user': reader.list,
    'search of a user': reader.search,
    'list with an API token': program.list,
    'download with an API token': () => program.download(id),
    'search with an API token': program.search,
  }
  for (const [what, call] of Object.entries(answers)) {
    // The first requests may use connections that were cut.
    let status = 0
    for (const end = performance.now() + timeoutMs; status !== 200 && performance.now() < end; await sleep(100))
      status = (await call()).status
    expect(status === 200, `read-only: ${what} is answered with ${status}`)
  }
  const { status, body } = await caller.uploadText()
  expect(status === 503, `read-only: an upload is answered with ${status} ${body}`)
  await installation.query('begin read write; alter database dms reset default_transaction_read_only; commit')
  await cutAll(installation)
  await comesBack('it took writes again')

  expect(server.isRunning(), `the server ended: ${server.output.at(-1)}`)
  const result = await faultRun.finish(`2 states, ${seconds} s of load`)
  await server.kill()
  return result

  async function comesBack(when: string): Promise<void> {
    for (const end = performance.now() + timeoutMs; performance.now() < end; await sleep(200))
      if ((await caller.uploadText()).status === 201) return
    expect(false, `no upload is taken ${timeoutMs / 1000} s after ${when}`)
  }
}

/** Adds a user and an API token. Their calls are counted, unlike those of an admin. */
async function openReaders({ url }: Installation, caller: Caller, ledger: Ledger) {
  const user = { username: 'reader', email: 'reader@example.org', password, role: 'user' }
  await caller.call('POST', '/api/users', { what: 'user', ...caller.json(user) })
  const made = await caller.call('POST', '/api/tokens', { what: 'token', ...caller.json({ name: 'reader', scopes: ['read'] }) })
  const { token: apiToken } = JSON.parse(made.body.toString()) as { token: string }
  return { reader: await openCaller(url, ledger, { username: 'reader' }), program: await openCaller(url, ledger, { apiToken }) }
}

const cutAll = ({ query }: Installation) =>
  query(`select count(pg_terminate_backend(pid)) from pg_stat_activity where pid <> pg_backend_pid() and datname = 'dms'`)

/** Ends all connections and occupies the free ones. Resolves when none is free. */
async function takeAllConnections(installation: Installation): Promise<() => Promise<void>> {
  const settings = await installation.connection()
  const taken: pg.Client[] = []
  const takeOne = async (): Promise<boolean> => {
    const client = new pg.Client(settings)
    client.on('error', () => {})
    try {
      await client.connect()
      taken.push(client)
      return true
    } catch {
      return false
    }
  }
  while (await takeOne());
  await taken[0]?.query(
    `select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name like 'dms%' and datname = 'dms'`,
  )
  for (let refused = 0; refused < 3; ) refused += Number(!(await takeOne()))
  return async () => {
    await Promise.all(taken.map((client) => client.end()))
  }
}
