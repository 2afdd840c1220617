/**
 * F34: a backup is created while clients upload and delete, and restored elsewhere: everything acknowledged before its start is there and
 * consistent.
 */
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Ended, run as runDms } from '../../support/processes/run.ts'
import { audit } from '../audit.ts'
import { mixedLoad, openCaller } from '../caller.ts'
import { type Fault, type FaultContext, type FaultResult, type FaultRun, openFaultRun } from '../fault.ts'
import type { Installation } from '../installation.ts'
import { openLedger } from '../ledger.ts'

const mostMs = 180_000

export const backupUnderLoad: Fault = { id: 'F34', name: 'backup under load, restored on a new place', run }

async function run({ installation, isShort, openInstallation }: FaultContext): Promise<FaultResult> {
  const rounds = isShort ? 2 : 10
  const server = await installation.start()
  const faultRun = await openFaultRun(installation)
  const { caller, ledger } = faultRun
  for (let at = 0; at < 40; at++) await (at % 4 === 0 ? caller.uploadBytes(200_000) : caller.uploadText())
  const half: FaultResult[] = []
  let restored = 0
  for (let round = 0; round < rounds; round++) {
    const load = new AbortController()
    const ended = Promise.all([
      mixedLoad(caller, ledger, { signal: load.signal, concurrency: 6, size: 300_000 }),
      deletions(installation, load.signal),
    ])
    await sleep(1000)
    const before = new Map(ledger.uploads)
    // Folders carry files of earlier rounds forward, archives do not.
    const to = round % 2 === 0 ? join(installation.folder, `${round}.tar`) : join(installation.folder, 'mirror')
    const made = await dms(installation, ['backup', 'create', '--to', to, ...(round % 2 === 0 ? [] : ['--format', 'dir'])])
    load.abort()
    await ended
    faultRun.expect(made.code === 0, `round ${round}: backup create ended with ${made.code}: ${made.stderr.slice(-300)}`)
    const other = await openInstallation()
    half.push(await restoreTo(other, to, round, before, faultRun))
    restored += before.size
    await other.remove()
  }
  faultRun.notes.push(`${restored} acknowledged uploads of ${rounds} backups looked for in ${rounds} new places`)
  const result = await faultRun.finish(`${rounds} backups`)
  await server.kill()
  return {
    ...result,
    lost: half.reduce((sum, { lost }) => sum + lost, result.lost),
    half: half.reduce((sum, each) => sum + each.half, result.half),
    duplicate: half.reduce((sum, { duplicate }) => sum + duplicate, result.duplicate),
    problems: [...result.problems, ...half.flatMap(({ problems }) => problems)],
  }
}

const dms = (installation: Installation, args: readonly string[]): Promise<Ended> =>
  runDms([...args, '--data-dir', installation.dataDir], { timeout: mostMs, env: { DMS_STORAGE_MIN_FREE: '0' } })

/** Uploads and deletes further documents, so that files are purged while they are copied. */
async function deletions(installation: Installation, signal: AbortSignal): Promise<void> {
  const caller = await openCaller(installation.url, openLedger())
  const ids: string[] = []
  while (!signal.aborted) {
    const { id } = await caller.uploadBytes(100_000)
    if (id !== null) ids.push(id)
    if (ids.length > 10) await caller.call('DELETE', `/api/documents/${ids.shift()}?permanent=true`, { what: 'delete' })
    await sleep(20)
  }
}

/** Restores the backup, starts a server on it, and audits what was acknowledged before the backup began. */
async function restoreTo(
  other: Installation,
  from: string,
  round: number,
  before: FaultRun['ledger']['uploads'],
  faultRun: FaultRun,
): Promise<FaultResult> {
  const { code, stderr } = await dms(other, ['restore', from, '-q'])
  faultRun.expect(code === 0, `round ${round}: restore ended with ${code}: ${stderr.slice(-300)}`)
  const checked = await dms(other, ['check', '--checks', 'files,checksums,references', '--sample', '100%'])
  faultRun.expect(checked.code === 0, `round ${round}: dms check ended with ${checked.code}: ${checked.stdout.slice(-300)}`)
  const server = await other.start()
  const ledger = openLedger()
  const caller = await openCaller(other.url, ledger)
  for (const [id, upload] of before) ledger.uploads.set(id, upload)
  const { lost, half, duplicate, problems } = await audit(other, caller, ledger)
  await server.kill()
  const named = problems.map((problem) => `round ${round}, restored: ${problem}`)
  return { injected: '', acknowledged: 0, lost, half, duplicate, outages: [], manual: 0, problems: named, notes: [] }
}
