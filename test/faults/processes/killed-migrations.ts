/** F09: the migrator is killed, two migrators run at once, and the schema is newer than the program. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import { bareEnvironment, type Ended, executable, run as runDms } from '../../support/processes/run.ts'
import { openSecondDatabase, type SecondDatabase } from '../database/second-database.ts'
import { type Fault, type FaultContext, type FaultResult, needsProgram, openFaultRun } from '../fault.ts'

/** calls of one thread while it applies all migrations */
const mostWrites = 200
const migrations = new URL('../../../migrations/', import.meta.url)

export const killedMigrations: Fault = {
  id: 'F09',
  name: 'kill -9 of the migrator, two at once, a newer schema',
  skipReason: needsProgram('strace'),
  run,
}

async function run({ installation, isShort }: FaultContext): Promise<FaultResult> {
  const server = await installation.start()
  const faultRun = await openFaultRun(installation)
  const { expect, notes } = faultRun
  const known = (await readdir(migrations)).map((name) => name.replace(/\.ts$/, '')).sort()
  const databases: SecondDatabase[] = []
  const open = async () => {
    const database = await openSecondDatabase(installation)
    databases.push(database)
    return database
  }
  const migrate = ({ url }: SecondDatabase) => dms(url, ['migrate'])

  const whole = await open()
  const first = await migrate(whole)
  expect(first.code === 0, `dms migrate ended with ${first.code}: ${first.stderr}`)
  const expected = await shapeOf(whole)

  const points = isShort ? [60, 140] : Array.from({ length: 60 }, () => 1 + Math.floor(Math.random() * mostWrites))
  const stoppedAt = new Set<number>()
  let kills = 0
  for (const point of points) {
    const database = await open()
    if (!(await killAtWrite(database.url, point))) continue
    kills++
    const applied = await appliedOf(database)
    stoppedAt.add(applied.length)
    expect(applied.join() === known.slice(0, applied.length).join(), `killed at write ${point}: applied are ${applied.join(' ')}`)
    const { code, stderr } = await migrate(database)
    expect(code === 0, `killed at write ${point}: the next dms migrate ended with ${code}: ${stderr}`)
    expect((await shapeOf(database)) === expected, `killed at write ${point}: the schema differs from one that was made at once`)
    await database.drop()
  }
  notes.push(`killed after ${[...stoppedAt].sort((a, b) => a - b).join(', ')} of ${known.length} migrations`)

  const shared = await open()
  const both = await Promise.all([migrate(shared), migrate(shared)])
  expect(
    both.every(({ code }) => code === 0),
    `two at once ended with ${both.map(({ code, stderr }) => `${code} ${stderr}`).join(' and ')}`,
  )
  expect((await shapeOf(shared)) === expected, 'two at once: the schema differs from one that was made at once')

  await shared.query(`insert into migrations (name) values ('9999_of_a_later_version')`)
  for (const args of [['migrate'], ['serve', '--port', '0'], ['worker']]) {
    const { code, stderr } = await dms(shared.url, args)
    expect(code === 78, `newer schema: dms ${args[0]} ended with ${code}`)
    expect(/newer/.test(stderr) && /9999_of_a_later_version/.test(stderr), `newer schema: dms ${args[0]} says ${stderr}`)
  }
  for (const database of databases) await database.drop()
  const result = await faultRun.finish(`${kills} kills, 2 at once, 1 newer schema`)
  await server.kill()
  return result

  function dms(url: string, args: readonly string[]): Promise<Ended> {
    return runDms([...args, '--data-dir', `${installation.folder}/second`], { env: environmentOf(url), timeout: 120_000 })
  }

  /** Returns whether the migrator was killed. */
  async function killAtWrite(url: string, at: number): Promise<boolean> {
    const inject = ['trace=write,writev', `inject=write,writev:signal=SIGKILL:when=${at}`].flatMap((expression) => ['-e', expression])
    const command = [process.execPath, executable, 'migrate', '--data-dir', `${installation.folder}/second`]
    const child = spawn('strace', ['-f', '-qq', '-o', '/dev/null', ...inject, ...command], {
      env: bareEnvironment(environmentOf(url)),
      stdio: 'ignore',
    })
    const [code] = (await once(child, 'exit')) as [number | null]
    return code !== 0
  }
}

const environmentOf = (url: string) => ({ DATABASE_URL: url, DMS_STORAGE_MIN_FREE: '0', DMS_LOG_FORMAT: 'json' })

async function appliedOf({ query }: SecondDatabase): Promise<string[]> {
  const [table] = await query<{ found: boolean }>(`select to_regclass('migrations') is not null as found`)
  if (!table?.found) return []
  return (await query<{ name: string }>('select name from migrations order by name')).map(({ name }) => name)
}

/** Returns the objects that migrations create, as text. */
async function shapeOf({ query }: SecondDatabase): Promise<string> {
  const rows = await query(`
    select 'column' as kind, table_name as a, column_name as b, data_type || is_nullable || coalesce(column_default, '') as c
      from information_schema.columns where table_schema = 'public'
    union all select 'index', tablename, indexname, indexdef from pg_indexes where schemaname = 'public'
    union all select 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid) from pg_constraint
      where connamespace = 'public'::regnamespace
    union all select 'function', proname, '', md5(prosrc) from pg_proc where pronamespace = 'public'::regnamespace
    union all select 'migration', name, '', '' from migrations
    order by 1, 2, 3, 4`)
  return JSON.stringify(rows)
}
