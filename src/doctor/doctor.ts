/** Runs diagnostic checks. Each check looks at one thing and never throws to the caller. */
import type { Fix } from '../log/fix.ts'

export interface CheckResult {
  status: 'ok' | 'warn' | 'fail' | 'skip'
  message: string
  /** a command or a setting that solves the problem */
  fix?: Fix | undefined
  /** Applies a harmless fix. Returns a description of the change. */
  repair?: (() => Promise<string>) | undefined
}

export interface Diagnosis extends Omit<CheckResult, 'fix' | 'repair'> {
  id: string
  duration_ms: number
  fix?: string
  /** result of --fix; null: nothing was changed */
  fixed: string | null
}

export interface Check {
  id: string
  /** subject of the check, for --list */
  about: string
  run(): CheckResult | Promise<CheckResult>
}

const checkTimeoutMs = 30_000

export interface RunOptions {
  /** apply harmless fixes */
  readonly canFix: boolean
  readonly formatFix: (fix: Fix) => string
  readonly onDiagnosis: (diagnosis: Diagnosis) => void
}

/** Runs the checks one after the other. */
export async function runChecks(checks: readonly Check[], { canFix, formatFix, onDiagnosis }: RunOptions): Promise<void> {
  for (const check of checks) {
    const started = performance.now()
    const { fix, repair, ...result } = await runCheck(check)
    const fixed = canFix && repair ? await repair().catch((error: Error) => `could not be fixed: ${error.message}`) : null
    const duration_ms = Math.round(performance.now() - started)
    onDiagnosis({ id: check.id, ...result, ...(fix === undefined ? {} : { fix: formatFix(fix) }), fixed, duration_ms })
  }
}

async function runCheck(check: Check): Promise<CheckResult> {
  const timeout = Promise.withResolvers<never>()
  const timer = setTimeout(() => timeout.reject(new Error(`no answer within ${checkTimeoutMs / 1000} s`)), checkTimeoutMs)
  try {
    return await Promise.race([check.run(), timeout.promise])
  } catch (error) {
    if (error instanceof SkippedCheck) return { status: 'skip', message: error.message }
    return fail((error as Error).message.split('\n', 1)[0] ?? 'failed', (error as { fix?: Fix }).fix)
  } finally {
    clearTimeout(timer)
  }
}

/** The check does not apply, or another check reports the cause. */
export class SkippedCheck extends Error {}

/** The check cannot run. `fix` solves the problem. */
export class CheckFailure extends Error {
  readonly fix: Fix

  constructor(message: string, fix: Fix) {
    super(message)
    this.fix = fix
  }
}

export const ok = (message: string): CheckResult => ({ status: 'ok', message })
export const warn = (message: string, fix?: Fix): CheckResult => ({ status: 'warn', message, fix })
export const fail = (message: string, fix?: Fix, repair?: CheckResult['repair']): CheckResult => ({
  status: 'fail',
  message,
  fix,
  repair,
})
