/** Limits the bytes of unread answers per caller and in all, so that clients that do not read cannot fill the memory (docs/api.md, "Large answers"). */
import type { Config } from '../../config/schema.ts'
import { AppError } from '../../errors.ts'

/** Memory reserved for an answer until it is sent. */
export interface Reservation {
  /** Sets the size of an answer that was read. */
  resize(bytes: number): void
  /** Grows the reservation to the size of a stream. Waits like reserve(). */
  grow(bytes: number): Promise<void>
  /** Releases the memory. Repeatable. */
  release(): void
}

export interface AnswerBudget {
  /**
   * Reserves `bytes` for an answer that will be read from the database. Waits up to ten seconds until earlier answers are sent. If none is being
   * sent, an answer may exceed the limits. Throws RATE_LIMITED if the answers of the caller leave no room, and SERVICE_UNAVAILABLE if the answers of
   * all callers leave none. `maxReading` limits the concurrent reads of the caller.
   */
  reserve(caller: string, bytes: number, maxReading: number): Promise<Reservation>
  /** Counts an answer that is complete. */
  add(caller: string, bytes: number): Reservation
}

const waitMs = 10_000
/** Maximum number of waiting answers of one caller. */
const maxWaiting = 100

interface Use {
  bytes: number
  /** Part of `bytes` for answers that are being sent. */
  sending: number
  /** Number of answers that are being read. */
  reading: number
  waiting: number
}

interface WaitingAnswer {
  caller: string
  bytes: number
  maxReading: number
  start(): void
}

/** Opens a budget with the limits of a configuration. `onChange` gets each change of the sum, in bytes. */
export function openAnswerBudget({ limits }: Pick<Config, 'limits'>, onChange: (bytes: number) => void): AnswerBudget {
  const { answer_bytes_per_user: maxOfCaller, answer_bytes_total: maxTotal } = limits
  const uses = new Map<string, Use>()
  const all: Pick<Use, 'bytes' | 'sending'> = { bytes: 0, sending: 0 }
  /** Answers that wait for grow(). They go first, because they were read and occupy memory. */
  const growing = new Set<WaitingAnswer>()
  const starting = new Set<WaitingAnswer>()

  const useOf = (caller: string): Use => {
    const use = uses.get(caller) ?? { bytes: 0, sending: 0, reading: 0, waiting: 0 }
    uses.set(caller, use)
    return use
  }
  const deleteIdle = (caller: string, { bytes, reading, waiting }: Use) => {
    if (bytes === 0 && reading === 0 && waiting === 0) uses.delete(caller)
  }
  const fits = ({ bytes: used, sending }: Pick<Use, 'bytes' | 'sending'>, bytes: number, max: number) =>
    sending === 0 ? used + bytes <= Math.max(max, bytes) : used + bytes <= max
  const canStart = (use: Use, bytes: number, maxReading: number) => use.reading < maxReading && fits(use, bytes, maxOfCaller)
  /**
   * Returns whether an answer that was read may reserve `bytes` more. Always true if no answer is being sent: otherwise two answers could wait for
   * each other.
   */
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
  /** Waits until startWaiting() has called `start`, which reserves the memory. */
  const wait = async (queue: Set<WaitingAnswer>, use: Use, { start, ...request }: WaitingAnswer): Promise<void> => {
    if (use.waiting >= maxWaiting) throw callerRefusal()
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const one: WaitingAnswer = {
      ...request,
      start: () => {
        start()
        resolve()
      },
    }
    const timer = setTimeout(() => {
      queue.delete(one)
      const { bytes, maxReading } = request
      const isOwn = queue === growing ? !canGrow(use, bytes, maxOfCaller) : !canStart(use, bytes, maxReading)
      reject(isOwn ? callerRefusal() : totalRefusal())
    }, waitMs)
    use.waiting++
    queue.add(one)
    try {
      await promise
    } finally {
      clearTimeout(timer)
      use.waiting--
      deleteIdle(request.caller, use)
    }
  }
  const take = (caller: string, bytes: number, phase: 'reading' | 'sending'): Reservation => {
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
      deleteIdle(caller, use)
      if (isFreed) startWaiting()
    }
    const send = (sent: number) => hold({ bytes: sent, sending: sent, reading: 0 })
    hold(phase === 'reading' ? { bytes, sending: 0, reading: 1 } : { bytes, sending: bytes, reading: 0 })
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
    add: (caller, bytes) => take(caller, bytes, 'sending'),
    async reserve(caller, bytes, maxReading) {
      const use = useOf(caller)
      // Earlier requests go first.
      if (use.waiting === 0 && canStart(use, bytes, maxReading) && fits(all, bytes, maxTotal)) return take(caller, bytes, 'reading')
      let reservation: Reservation | undefined
      const start = () => {
        reservation = take(caller, bytes, 'reading')
      }
      await wait(starting, use, { caller, bytes, maxReading, start })
      return reservation as unknown as Reservation
    },
  }
}

const retryDetails = { retry_after_secs: 5 }
const callerRefusal = () => new AppError('RATE_LIMITED', retryDetails, 'Too many bytes of earlier answers are unread. Read them first.')
const totalRefusal = () => new AppError('SERVICE_UNAVAILABLE', retryDetails, 'Too many answers are unread by their clients.')
