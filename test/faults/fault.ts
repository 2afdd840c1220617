/** Input and result of a fault. */
import { spawn, spawnSync } from 'node:child_process'
import { accessSync, constants, mkdtempSync, rmdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { hasProgram } from '../support/processes/run.ts'
import { type AuditOptions, type AuditResult, audit } from './audit.ts'
import { type Caller, openCaller } from './caller.ts'
import type { Installation } from './installation.ts'
import { type Ledger, openLedger } from './ledger.ts'

export interface FaultResult {
  /** number of operations */
  injected: string
  acknowledged: number
  lost: number
  half: number
  duplicate: number
  /** milliseconds */
  outages: readonly number[]
  /** number of steps that an operator had to take */
  manual: number
  problems: readonly string[]
  /** further measurements */
  notes: readonly string[]
}

export interface FaultContext {
  installation: Installation
  isShort: boolean
  /** Opens another installation. It is also removed at the end. */
  openInstallation(): Promise<Installation>
}

export interface Fault {
  readonly id: string
  readonly name: string
  /** takes longer than most faults */
  readonly isLong?: boolean
  /** measures times and runs alone */
  readonly isExclusive?: boolean
  /** Returns the reason why the fault cannot run on this machine; null if it can. */
  skipReason?(): string | null
  run(context: FaultContext): Promise<FaultResult>
}

/** A ledger, a signed-in client that records in it, and the findings. */
export interface FaultRun {
  ledger: Ledger
  caller: Caller
  problems: string[]
  notes: string[]
  /** Records a finding unless the condition is true. */
  expect(isTrue: boolean, otherwise: string): void
  /** Runs the audit and returns the result with its findings. */
  finish(injected: string, options?: AuditOptions): Promise<FaultResult>
}

/** Opens a run against a running server. `timeoutMs`: milliseconds after which a request without an answer hangs, even on a busy machine. */
export async function openFaultRun(installation: Installation, timeoutMs = 60_000): Promise<FaultRun> {
  const ledger = openLedger()
  const caller = await openCaller(installation.url, ledger, { timeoutMs })
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
    async finish(injected, options) {
      const outages = [...ledger.outages]
      const audited: AuditResult = await audit(installation, caller, ledger, options)
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

/** Returns why strace cannot attach to a process; null if it can. Containers often forbid it, even for root. */
export const needsTracing = (): string | null => {
  if (!hasProgram('strace')) return 'there is no program strace'
  const child = spawn('sleep', ['60'], { stdio: 'ignore' })
  const attach = (timeout: number) =>
    spawnSync('strace', ['-o', '/dev/null', '-p', String(child.pid)], { timeout, killSignal: 'SIGINT' })
      .stderr.toString()
      .trim()
  // On a busy machine, strace may not have started after half a second.
  const output = attach(500) || attach(10_000)
  child.kill()
  return output.includes('attached') ? null : `strace may not attach: ${output}`
}

/** Returns why a file system cannot be mounted; null if it can. Containers often forbid it, even for root. */
export const needsMounting = (): string | null => {
  const folder = mkdtempSync(join(tmpdir(), 'dms-mount-'))
  const { status, stderr } = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'dms-faults', folder])
  if (status === 0) spawnSync('umount', [folder])
  rmdirSync(folder)
  return status === 0 ? null : `nothing can be mounted: ${stderr?.toString().trim() ?? 'there is no mount'}`
}

/** Combines checks. The result returns the first reason. */
export const needs =
  (...all: readonly (() => string | null)[]) =>
  (): string | null => {
    for (const one of all) {
      const reason = one()
      if (reason !== null) return reason
    }
    return null
  }
