/** Runs diagnostic checks. Each check looks at one thing and never throws to the caller. */

export interface CheckResult {
  status: 'ok' | 'warn' | 'fail' | 'skip'
  message: string
  /** a command or a setting that solves the problem */
  fix?: string | undefined
  /** Applies a harmless fix. Returns a description of the change. */
  repair?: (() => Promise<string>) | undefined
}

export interface Diagnosis extends Omit<CheckResult, 'repair'> {
  id: string
  duration_ms: number
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

/** Runs the checks one after the other. With `canFix`, applies harmless fixes. */
export async function runChecks(checks: readonly Check[], canFix: boolean, onDiagnosis: (diagnosis: Diagnosis) => void): Promise<void> {
  for (const check of checks) {
    const started = performance.now()
    const { repair, ...result } = await runCheck(check)
    const fixed = canFix && repair ? await repair().catch((error: Error) => `could not be fixed: ${error.message}`) : null
    onDiagnosis({ id: check.id, ...result, fixed, duration_ms: Math.round(performance.now() - started) })
  }
}

async function runCheck(check: Check): Promise<CheckResult> {
  const timeout = Promise.withResolvers<never>()
  const timer = setTimeout(() => timeout.reject(new Error(`no answer within ${checkTimeoutMs / 1000} s`)), checkTimeoutMs)
  try {
    return await Promise.race([check.run(), timeout.promise])
  } catch (error) {
    if (error instanceof SkippedCheck) return { status: 'skip', message: error.message }
    return fail((error as Error).message.split('\n', 1)[0] ?? 'failed', (error as { fix?: string }).fix)
  } finally {
    clearTimeout(timer)
  }
}

/** The check does not apply, or another check reports the cause. */
export class SkippedCheck extends Error {}

/** The check cannot run. `fix` solves the problem. */
export class CheckFailure extends Error {
  readonly fix: string

  constructor(message: string, fix: string) {
    super(message)
    this.fix = fix
  }
}

export const ok = (message: string): CheckResult => ({ status: 'ok', message })
export const warn = (message: string, fix?: string): CheckResult => ({ status: 'warn', message, fix })
export const fail = (message: string, fix?: string, repair?: CheckResult['repair']): CheckResult => ({
  status: 'fail',
  message,
  fix,
  repair,
})
