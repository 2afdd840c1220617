/** A run: walks the source beside the ledger, fetches what is new or changed, and then says what is gone. */
import * as claims from '../../jobs/leases.ts'
import { type SourceEntry, SourceFailure } from '../../ports/source-type.ts'
import { checkRights, withOwner } from '../address.ts'
import { compare, settleMarks } from './compare.ts'
import { type Intake, openIntake } from './fetch-queue.ts'
import { conclude } from './finish.ts'
import * as folders from './folder-tags.ts'
import * as runs from './run-records.ts'
import type { Pulling } from './sync-context.ts'
import { nothingSeen, type Seen } from './walk-state.ts'

/** Entries that are compared with the ledger at once, and for how long (ms) some may wait for more. */
const together = 1000
const patience = 1000
/** Milliseconds between two events. */
const pace = 250
/** Rounds of that without news after which it is looked whether the run is still ours. */
const quietRounds = 4
/** Rounds after which it is looked whether the owner may still have the source read. */
const rightsRounds = 4
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
  const started = performance.now()
  let checking: Promise<void> | null = null
  const tell = () => {
    if (++round % takingRounds === 0) intake.flush()
    if (round % rightsRounds === 0)
      checking ??= stillAllowed(pulling)
        .then(() => makeRoom(pulling, started))
        .catch((error) => {
          if (error instanceof SourceFailure || error instanceof claims.Yielded) lost.abort(error)
        })
        .finally(() => {
          checking = null
        })
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
  const { max_duration } = app.config.sources
  const deadline = setTimeout(() => lost.abort(tooLong(max_duration)), max_duration)
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
    clearTimeout(deadline)
    await intake.stop()
    await telling
    await checking
  }
  await runs.complete(app, run, seen.files, seen.marks.counts)
}

/** Throws SourceFailure where the owner lost rights since the run began: what is open was opened under the old ones. */
async function stillAllowed({ app, sourceId, ownerRole }: Pulling): Promise<void> {
  const source = await withOwner(app.db, sourceId)
  if (!source) return
  checkRights(source)
  if (source.owner_role !== ownerRole) throw new SourceFailure('SOURCE_OWNER_CHANGED', undefined, true)
}

/** Throws Yielded where others have waited for a place: the run is taken up again at its next turn. */
async function makeRoom({ app, job }: Pulling, started: number): Promise<void> {
  const { turn, max_syncs_per_user } = app.config.sources
  if (job === null || performance.now() - started < turn) return
  if (await claims.shouldYield(app.db, job, max_syncs_per_user)) throw new claims.Yielded()
}

const tooLong = (maxMs: number) =>
  new SourceFailure(
    'SOURCE_TOO_SLOW',
    `The sync took longer than sources.max_duration (${maxMs / 1000} s). What came stays, and the next sync goes on.`,
  )

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
