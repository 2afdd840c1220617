/** Limits the listings of sources by the server itself. A folder of 500,000 files takes 100 MB of memory and seconds of processor time. */
import type { Actor } from '../actor.ts'
import { AppError } from '../errors.ts'

/** Maximum number of concurrent listings of one caller, and of all. */
const maxOfCaller = 2
const maxTotal = 8
const retryAfterSecs = 10

/** Returns a function that runs a listing. It throws RATE_LIMITED or SERVICE_UNAVAILABLE if too many others run. */
export function openListingLimit() {
  const running = new Map<Actor['id'], number>()
  let total = 0
  return async <T>({ id }: Actor, list: () => Promise<T>): Promise<T> => {
    const ofCaller = running.get(id) ?? 0
    const details = { retry_after_secs: retryAfterSecs }
    if (ofCaller === maxOfCaller) throw new AppError('RATE_LIMITED', details, 'Two of your sources are being listed already.')
    if (total === maxTotal) throw new AppError('SERVICE_UNAVAILABLE', details, 'Too many sources are being listed.')
    running.set(id, ofCaller + 1)
    total++
    try {
      return await list()
    } finally {
      const left = (running.get(id) ?? 1) - 1
      if (left === 0) running.delete(id)
      else running.set(id, left)
      total--
    }
  }
}
