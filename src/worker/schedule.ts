/** What is seen to again and again, without anybody's asking. */
import type { App } from '../app.ts'
import { settle } from '../documents/settle.ts'

const minute = 60_000

/** Starts at once, then goes on every minute. */
export function startSchedule(app: App): { stop(): Promise<void> } {
  let round = Promise.resolve()
  const begin = () => {
    round = round
      .then(() => settle(app))
      .catch((error) => app.log.warn({ err: (error as Error).message }, 'unsettled uploads were not looked at'))
  }
  begin()
  const timer = setInterval(begin, minute)
  return {
    stop: () => {
      clearInterval(timer)
      return round
    },
  }
}
