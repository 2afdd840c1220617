/**
 * F34: a backup is created while clients upload and delete, and restored elsewhere: everything acknowledged before its start is there and
 * consistent.
 */
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Ended, run as runDms } from '../../support/processes/run.ts'
import { audit } from '../audit.ts'
import { mixedLoad, openCaller } from '../caller.ts'
import { type Fault, type Given, openTrial, type Told, type Trial } from '../fault.ts'
import { openLedger } from '../ledger.ts'
import type { Place } from '../place.ts'

const mostMs = 180_000

export const backupUnderLoad: Fault = { id: 'F34', name: 'backup under load, restored on a new place', run }

async function run({ place, isShort, openPlace }: Given): Promise<Told> {
  const rounds = isShort ? 2 : 10
  const server = await place.start()
  const trial = await openTrial(place)
  const { caller, ledger } = trial
  for (let at = 0; at < 40; at++) await (at % 4 === 0 ? caller.uploadBytes(200_000) : caller.uploadText())
  const half: Told[] = []
  let restored = 0
  for (let round = 0; round < rounds; round++) {
    const load = new AbortController()
    const ended = Promise.all([mixedLoad(caller, ledger, { signal: load.signal, lanes: 6, size: 300_000 }), deletions(place, load.signal)])
    await sleep(1000)
    const before = new Map(ledger.uploads)
    // Folders carry files of earlier rounds forward, archives do not.
    const to = round % 2 === 0 ? join(place.folder, `${round}.tar`) : join(place.folder, 'mirror')
    const made = await dms(place, ['backup', 'create', '--to', to, ...(round % 2 === 0 ? [] : ['--format', 'dir'])])
    load.abort()
    await ended
    trial.expect(made.code === 0, `round ${round}: backup create ended with ${made.code}: ${made.stderr.slice(-300)}`)
    const other = await openPlace()
    half.push(await restoreTo(other, to, round, before, trial))
    restored += before.size
    await other.remove()
  }
  trial.notes.push(`${restored} acknowledged uploads of ${rounds} backups looked for in ${rounds} new places`)
  const told = await trial.conclude(`${rounds} backups`)
  await server.kill()
  return {
    ...told,
    lost: half.reduce((sum, { lost }) => sum + lost, told.lost),
    half: half.reduce((sum, each) => sum + each.half, told.half),
    duplicate: half.reduce((sum, { duplicate }) => sum + duplicate, told.duplicate),
    problems: [...told.problems, ...half.flatMap(({ problems }) => problems)],
  }
}

const dms = (place: Place, args: readonly string[]): Promise<Ended> =>
  runDms([...args, '--data-dir', place.dataDir], { timeout: mostMs, env: { DMS_STORAGE_MIN_FREE: '0' } })

/** Uploads and deletes further documents, so that files are purged while they are copied. */
async function deletions(place: Place, signal: AbortSignal): Promise<void> {
  const caller = await openCaller(place.url, openLedger())
  const ids: string[] = []
  while (!signal.aborted) {
    const { id } = await caller.uploadBytes(100_000)
    if (id !== null) ids.push(id)
    if (ids.length > 10) await caller.call('DELETE', `/api/documents/${ids.shift()}?permanent=true`, { what: 'delete' })
    await sleep(20)
  }
}

/** Restores the backup, starts a server on it, and audits what was acknowledged before the backup began. */
async function restoreTo(other: Place, from: string, round: number, before: Trial['ledger']['uploads'], trial: Trial): Promise<Told> {
  const { code, stderr } = await dms(other, ['restore', from, '-q'])
  trial.expect(code === 0, `round ${round}: restore ended with ${code}: ${stderr.slice(-300)}`)
  const checked = await dms(other, ['check', '--checks', 'files,checksums,references', '--sample', '100%'])
  trial.expect(checked.code === 0, `round ${round}: dms check ended with ${checked.code}: ${checked.stdout.slice(-300)}`)
  const server = await other.start()
  const ledger = openLedger()
  const caller = await openCaller(other.url, ledger)
  for (const [id, upload] of before) ledger.uploads.set(id, upload)
  const { lost, half, duplicate, problems } = await audit(other, caller, ledger)
  await server.kill()
  const named = problems.map((problem) => `round ${round}, restored: ${problem}`)
  return { injected: '', acknowledged: 0, lost, half, duplicate, outages: [], manual: 0, problems: named, notes: [] }
}
