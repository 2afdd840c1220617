/** Bytes of answers that their clients have not taken yet: limited for each caller and in all, so that nobody fills the memory by not reading. */
import type { Config } from '../../config/schema.ts'
import { AppError } from '../../errors.ts'

/** Memory that is set aside for one answer until it is sent. */
export interface Reservation {
  /** The answer is read and has this size. */
  resize(bytes: number): void
  /** The answer is streamed and takes up to this much: waits for it as reserve() does. */
  grow(bytes: number): Promise<void>
  /** Gives it back; a second time is harmless. */
  release(): void
}

export interface AnswerBudget {
  /**
   * Sets `bytes` aside for an answer that is about to be read from the database; waits up to ten seconds until earlier answers are sent. Where
   * nothing is being sent, an answer passes that is larger than the limits. Throws RATE_LIMITED where the caller's own answers leave no room,
   * SERVICE_UNAVAILABLE where those of all do. `maxReading`: answers that one caller has read from the database at the same time.
   */
  reserve(caller: string, bytes: number, maxReading: number): Promise<Reservation>
  /** Counts an answer that is made already. */
  add(caller: string, bytes: number): Reservation
}

const waitMs = 10_000
const retryAfterSecs = 5
/** Of one caller. */
const maxWaiting = 100

interface Use {
  bytes: number
  /** of that, for answers that are being sent */
  sending: number
  /** answers that are being read: their size is not known yet */
  reading: number
  waiting: number
}

interface Waiting {
  caller: string
  bytes: number
  maxReading: number
  start(): void
}

/** Opens it with the limits of a configuration. `onChange` is told of each change of the sum, in bytes. */
export function openAnswerBudget({ limits }: Pick<Config, 'limits'>, onChange: (bytes: number) => void = () => {}): AnswerBudget {
  const { answer_bytes_per_user: maxOfCaller, answer_bytes_total: maxTotal } = limits
  const uses = new Map<string, Use>()
  const all: Pick<Use, 'bytes' | 'sending'> = { bytes: 0, sending: 0 }
  /** Those that have been read go first: they occupy memory while they wait. */
  const growing = new Set<Waiting>()
  const starting = new Set<Waiting>()

  const useOf = (caller: string): Use => {
    const known = uses.get(caller)
    if (known) return known
    const use = { bytes: 0, sending: 0, reading: 0, waiting: 0 }
    uses.set(caller, use)
    return use
  }
  const forgetIdle = (caller: string, { bytes, reading, waiting }: Use) => {
    if (bytes === 0 && reading === 0 && waiting === 0) uses.delete(caller)
  }
  const fits = ({ bytes: used, sending }: Pick<Use, 'bytes' | 'sending'>, bytes: number, max: number) =>
    sending === 0 ? used + bytes <= Math.max(max, bytes) : used + bytes <= max
  const canStart = (use: Use, bytes: number, maxReading: number) => use.reading < maxReading && fits(use, bytes, maxOfCaller)
  /** Answers that were read and only wait for each other must not wait for ever: one of them passes. */
  const canGrow = (use: Pick<Use, 'bytes' | 'sending'>, bytes: number, max: number) => use.sending === 0 || use.bytes + bytes <= max
  const startWaiting = () => {
    for (const one of growing) {
      if (!canGrow(useOf(one.caller), one.bytes, maxOfCaller) || !canGrow(all, one.bytes, maxTotal)) continue
      growing.delete(one)
      one.start()
    }
    for (const one of starting) {
      if (!canStart(useOf(one.caller), one.bytes, one.maxReading) || !fits(all, one.bytes, maxTotal)) continue
      starting.delete(one)
      one.start()
    }
  }
  /** Resolves when `start` was called, which takes what is waited for. */
  const wait = async (queue: Set<Waiting>, use: Use, { start, ...what }: Waiting): Promise<void> => {
    if (use.waiting >= maxWaiting) throw refusal(true)
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const one: Waiting = {
      ...what,
      start: () => {
        start()
        resolve()
      },
    }
    const clock = setTimeout(() => {
      queue.delete(one)
      const { bytes, maxReading } = what
      reject(refusal(queue === growing ? !canGrow(use, bytes, maxOfCaller) : !canStart(use, bytes, maxReading)))
    }, waitMs)
    use.waiting++
    queue.add(one)
    try {
      await promise
    } finally {
      clearTimeout(clock)
      use.waiting--
      forgetIdle(what.caller, use)
    }
  }
  const take = (caller: string, bytes: number, isReading: boolean): Reservation => {
    const use = useOf(caller)
    const held = { bytes: 0, sending: 0, reading: 0 }
    const hold = (next: typeof held) => {
      use.bytes += next.bytes - held.bytes
      use.sending += next.sending - held.sending
      use.reading += next.reading - held.reading
      all.bytes += next.bytes - held.bytes
      all.sending += next.sending - held.sending
      const isFreed = next.bytes < held.bytes || next.reading < held.reading
      onChange(next.bytes - held.bytes)
      Object.assign(held, next)
      forgetIdle(caller, use)
      if (isFreed) startWaiting()
    }
    const send = (sent: number) => hold({ bytes: sent, sending: sent, reading: 0 })
    hold(isReading ? { bytes, sending: 0, reading: 1 } : { bytes, sending: bytes, reading: 0 })
    return {
      resize: send,
      async grow(needed) {
        const more = needed - held.bytes
        if (growing.size === 0 && canGrow(use, more, maxOfCaller) && canGrow(all, more, maxTotal)) return send(needed)
        hold({ ...held, reading: 0 })
        await wait(growing, use, { caller, bytes: more, maxReading: 0, start: () => send(needed) })
      },
      release: () => hold({ bytes: 0, sending: 0, reading: 0 }),
    }
  }
  return {
    add: (caller, bytes) => take(caller, bytes, false),
    async reserve(caller, bytes, maxReading) {
      const use = useOf(caller)
      // Those who came earlier go first.
      if (use.waiting === 0 && canStart(use, bytes, maxReading) && fits(all, bytes, maxTotal)) return take(caller, bytes, true)
      let reservation: Reservation | undefined
      const start = () => {
        reservation = take(caller, bytes, true)
      }
      await wait(starting, use, { caller, bytes, maxReading, start })
      return reservation as unknown as Reservation
    },
  }
}

function refusal(isOwn: boolean): AppError {
  const details = { retry_after_secs: retryAfterSecs }
  return isOwn
    ? new AppError('RATE_LIMITED', details, 'Read the answers to earlier requests first: too many bytes of them wait for you.')
    : new AppError('SERVICE_UNAVAILABLE', details, 'Too many answers wait for their readers.')
}
