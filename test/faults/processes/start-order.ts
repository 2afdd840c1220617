/** F32: a part that the server needs is missing at its start. */
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { type Ended, run as runDms } from '../../support/processes/run.ts'
import { type Fault, type FaultContext, type FaultResult, openFaultRun } from '../fault.ts'
import { password } from '../installation.ts'

export const startOrder: Fault = { id: 'F32', name: 'started without what it needs', run }

async function run({ installation }: FaultContext): Promise<FaultResult> {
  const problems: string[] = []
  const nowhere = 'postgres://nobody@127.0.0.1:1/none'
  const config = join(installation.folder, 'bad.toml')
  await writeFile(config, '[server]\nporrt = 1\n')
  const taken = createServer().listen(0, '127.0.0.1')
  await once(taken, 'listening')
  const address = taken.address()
  const port = typeof address === 'object' && address ? String(address.port) : ''

  const begin = (args: readonly string[], env: Record<string, string> = {}) =>
    runDms([...args, '--data-dir', installation.dataDir], {
      env: { DMS_ADMIN_PASSWORD: password, DMS_LOG_FORMAT: 'json', DMS_STORAGE_MIN_FREE: '0', ...env },
      timeout: 180_000,
    })
  const cases: [what: string, ended: Promise<Ended>, codes: readonly number[], names: RegExp][] = [
    ['no database', begin(['serve', '--port', '0'], { DATABASE_URL: nowhere }), [69], /database|postgres|ECONNREFUSED/i],
    ['no database, worker', begin(['worker'], { DATABASE_URL: nowhere }), [69], /database|postgres|ECONNREFUSED/i],
    ['secret too short', begin(['serve', '--port', '0'], { JWT_SECRET: 'short' }), [78], /JWT_SECRET|jwt_secret/],
    ['bad number', begin(['serve'], { DMS_SERVER_PORT: 'http' }), [78], /DMS_SERVER_PORT|server\.port/],
    ['bad duration', begin(['serve', '--port', '0'], { DMS_WORKER_LEASE: 'soon' }), [78], /DMS_WORKER_LEASE|worker\.lease/],
    ['bad file', begin(['serve', '--port', '0', '--config', config]), [78], /porrt/],
  ]
  for (const [what, ended, codes, names] of cases) check(what, await ended, codes, names)
  check('port taken', await begin(['serve', '--port', port]), [1], /port/)
  taken.close()

  // The installation is unchanged after all of these.
  const server = await installation.start()
  const faultRun = await openFaultRun(installation)
  faultRun.expect((await faultRun.caller.uploadText()).status === 201, 'an upload after all that is refused')
  const result = await faultRun.finish(`${cases.length + 1} bad starts`)
  await server.kill()
  return { ...result, problems: [...problems, ...result.problems] }

  function check(what: string, { code, stderr }: Ended, codes: readonly number[], names: RegExp): void {
    const last = stderr.trim().split('\n')
    if (!codes.includes(code ?? -1)) problems.push(`${what}: ended with ${code}, not ${codes.join(' or ')}: ${last.slice(-2).join(' | ')}`)
    if (!names.test(stderr)) problems.push(`${what}: does not name what is wrong: ${last.slice(-2).join(' | ')}`)
    if (/\n\s+at /.test(stderr)) problems.push(`${what}: shows a stack`)
  }
}
