/** What is wrong with an installation, and what mends it: questions that each look at one thing and never fail themselves. */
import { setTimeout as sleep } from 'node:timers/promises'

export interface Opinion {
  status: 'ok' | 'warn' | 'fail' | 'skip'
  message: string
  /** a command or a setting that mends it */
  fix?: string
  /** mends it, where that does no harm; says what was done */
  mend?: () => Promise<string>
}

export interface Diagnosis extends Omit<Opinion, 'mend'> {
  id: string
  duration_ms: number
  /** what --fix did; null: nothing */
  fixed: string | null
}

export interface Question {
  id: string
  /** what is looked at, for --list */
  about: string
  ask(): Promise<Opinion>
}

/** Milliseconds for one question. */
const patience = 30_000

/** Asks them one after the other. With `fix`, what can be mended without harm is. */
export async function examine(questions: readonly Question[], fix: boolean, told: (diagnosis: Diagnosis) => void): Promise<void> {
  for (const { id, ask } of questions) {
    const started = performance.now()
    const { mend, ...opinion } = await inTime(ask)
    const fixed = fix && mend ? await mend().catch((error: Error) => `could not be fixed: ${error.message}`) : null
    told({ id, ...opinion, fixed, duration_ms: Math.round(performance.now() - started) })
  }
}

async function inTime(ask: Question['ask']): Promise<Opinion> {
  const late = new AbortController()
  const tooLate = sleep(patience, undefined, { signal: late.signal }).then(() =>
    Promise.reject(new Error(`no answer within ${patience / 1000} s`)),
  )
  tooLate.catch(() => {})
  try {
    return await Promise.race([ask(), tooLate])
  } catch (error) {
    if (error instanceof NotHere) return { status: 'skip', message: error.message }
    return fail((error as Error).message.split('\n', 1)[0] ?? 'failed', error instanceof Failing ? error.fix : undefined)
  } finally {
    late.abort()
  }
}

/** What a question needs is not there, and another question tells of that. */
export class NotHere extends Error {}

/** What keeps a question from being answered, and what mends it. */
export class Failing extends Error {
  readonly fix: string

  constructor(message: string, fix: string) {
    super(message)
    this.fix = fix
  }
}

export const ok = (message: string): Opinion => ({ status: 'ok', message })
export const warn = (message: string, fix?: string, mend?: Opinion['mend']): Opinion => opinion('warn', message, fix, mend)
export const fail = (message: string, fix?: string, mend?: Opinion['mend']): Opinion => opinion('fail', message, fix, mend)

const opinion = (status: 'warn' | 'fail', message: string, fix?: string, mend?: Opinion['mend']): Opinion => ({
  status,
  message,
  ...(fix === undefined ? {} : { fix }),
  ...(mend === undefined ? {} : { mend }),
})
