/** Input and result of a fault. */
import { spawn, spawnSync } from 'node:child_process'
import { accessSync, constants, mkdtempSync, rmdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { hasProgram } from '../support/processes/run.ts'
import { type Audited, type AuditOptions, audit } from './audit.ts'
import { type Caller, openCaller } from './caller.ts'
import { type Ledger, openLedger } from './ledger.ts'
import type { Place } from './place.ts'

export interface Told {
  /** number of operations */
  injected: string
  acknowledged: number
  lost: number
  half: number
  duplicate: number
  /** milliseconds */
  outages: readonly number[]
  /** what an operator had to do before it continued */
  manual: number
  problems: readonly string[]
  /** further measurements */
  notes: readonly string[]
}

export interface Given {
  place: Place
  isShort: boolean
  /** another one, which is also removed at the end */
  openPlace(): Promise<Place>
}

export interface Fault {
  readonly id: string
  readonly name: string
  /** takes longer than most */
  readonly isLong?: boolean
  /** measures times: no other fault runs at the same time */
  readonly isAlone?: boolean
  /** why it cannot run on this machine; null: it can */
  missing?(): string | null
  run(given: Given): Promise<Told>
}

/** Creates a ledger, a signed-in client that records in it, and an empty list of findings. */
export interface Trial {
  ledger: Ledger
  caller: Caller
  problems: string[]
  notes: string[]
  /** Records a finding unless the condition is true. */
  expect(isTrue: boolean, otherwise: string): void
  /** Adds the findings of the audit. */
  conclude(injected: string, options?: AuditOptions): Promise<Told>
}

/** Opens one at a running server. */
export async function openTrial(place: Place, patience = 20_000): Promise<Trial> {
  const ledger = openLedger()
  const caller = await openCaller(place.url, ledger, { patience })
  const problems: string[] = []
  const notes: string[] = []
  return {
    ledger,
    caller,
    problems,
    notes,
    expect(isTrue, otherwise) {
      if (!isTrue) problems.push(otherwise)
    },
    async conclude(injected, options) {
      const outages = [...ledger.outages]
      const audited: Audited = await audit(place, caller, ledger, options)
      const { lost, half, duplicate } = audited
      const { acknowledged } = ledger
      return { injected, acknowledged, lost, half, duplicate, outages, manual: 0, problems: [...problems, ...audited.problems], notes }
    },
  }
}

export const needsProgram = (name: string) => (): string | null => (hasProgram(name) ? null : `there is no program ${name}`)
export const needsRoot = (): string | null => (process.getuid?.() === 0 ? null : 'only root can do that')

export const needsWritable = (path: string) => (): string | null => {
  try {
    accessSync(path, constants.W_OK)
    return null
  } catch {
    return `${path} is not there, or not to be written`
  }
}

/** Attaching to another process's child is often forbidden, in containers also for root. */
export const needsTracing = (): string | null => {
  if (!hasProgram('strace')) return 'there is no program strace'
  const child = spawn('sleep', ['5'], { stdio: 'ignore' })
  const { stderr } = spawnSync('strace', ['-o', '/dev/null', '-p', String(child.pid)], { timeout: 500, killSignal: 'SIGINT' })
  child.kill()
  return stderr.includes('attached') ? null : `strace may not attach: ${stderr.toString().trim()}`
}

/** Root in a container may not do it. */
export const needsMounting = (): string | null => {
  const folder = mkdtempSync(join(tmpdir(), 'dms-mount-'))
  const { status, stderr } = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'dms-faults', folder])
  if (status === 0) spawnSync('umount', [folder])
  rmdirSync(folder)
  return status === 0 ? null : `nothing can be mounted: ${stderr?.toString().trim() ?? 'there is no mount'}`
}

/** Combines checks: returns the first reason of several. */
export const needs =
  (...all: readonly (() => string | null)[]) =>
  (): string | null => {
    for (const one of all) {
      const reason = one()
      if (reason !== null) return reason
    }
    return null
  }
