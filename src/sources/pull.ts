/** A run: walks the source beside the ledger, fetches what is new or changed, and then says what is gone. */
import type { SourceEntry } from '../ports/sources.ts'
import { compare, settleMarks } from './compare.ts'
import { conclude } from './conclude.ts'
import * as folders from './folders.ts'
import { type Intake, openIntake } from './intake.ts'
import type { Pulling } from './pulling.ts'
import * as runs from './runs.ts'
import { nothingSeen, type Seen } from './seen.ts'

/** Entries that are compared with the ledger at once, and for how long (ms) some may wait for more. */
const together = 1000
const patience = 1000
/** Milliseconds between two events. */
const pace = 250
/** Rounds of that without news after which it is looked whether the run is still ours. */
const quietRounds = 4
/** Rounds after which what has come is taken in, however little it is: what is lost by a crash is fetched again. */
const takingRounds = 2

/** Runs to its end. Throws SourceFailure where the source cannot be listed, RunLost, and the signal's reason. */
export async function pull(given: Pulling): Promise<void> {
  const lost = new AbortController()
  const pulling = { ...given, signal: AbortSignal.any([given.signal, lost.signal]) }
  const { app, ownerId, run, signal } = pulling
  const seen = nothingSeen()
  let current: string | null = null
  const intake = openIntake(pulling, (path) => {
    current = path
  })

  let told = ''
  let quiet = 0
  let telling: Promise<void> | null = null
  let round = 0
  const tell = () => {
    if (++round % takingRounds === 0) intake.flush()
    if (telling) return
    const news = `${runs.processed(run)} ${seen.files} ${current}`
    if (news === told && ++quiet < quietRounds) return
    quiet = 0
    told = news
    telling = runs
      .tell(app, run, ownerId, seen.files, current)
      .catch((error) => {
        // A database out of reach is noticed by those who have something to write.
        if (error instanceof runs.RunLost) lost.abort(error)
      })
      .finally(() => {
        telling = null
      })
  }
  const timer = setInterval(tell, pace)
  try {
    await walk(pulling, seen, intake)
    await intake.end()
    current = null
    await conclude(pulling, seen)
  } catch (error) {
    if (!lost.signal.aborted) await settleMarks(pulling, seen).catch(() => {})
    throw signal.aborted ? signal.reason : error
  } finally {
    clearInterval(timer)
    await intake.stop()
    await telling
  }
  await runs.complete(app, run, seen.files, seen.marks.counts)
}

async function walk(pulling: Pulling, seen: Seen, intake: Intake): Promise<void> {
  const { connection, options, signal } = pulling
  let some: SourceEntry[] = []
  let since = performance.now()
  let left = options.maxFiles ?? Number.POSITIVE_INFINITY
  let comparing = Promise.resolve(0)
  /** Some are compared while the next are listed; false where no more are to be fetched. */
  const hand = async (): Promise<boolean> => {
    left -= await comparing
    comparing = left > 0 ? compare(pulling, seen, intake, some, left) : Promise.resolve(0)
    comparing.catch(() => {})
    some = []
    since = performance.now()
    return left > 0
  }
  try {
    for await (const entry of connection.walk({ known: folders.tagsFor(pulling), signal })) {
      signal.throwIfAborted()
      some.push(entry)
      if (some.length < together && performance.now() - since < patience) continue
      if (!(await hand())) break
    }
    await hand()
    left -= await comparing
  } finally {
    await comparing.catch(() => {})
  }
  if (left <= 0) seen.isWhole = false
}
