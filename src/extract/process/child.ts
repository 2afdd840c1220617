/** Program of a reader process: runs the requests of the server one at a time. */
import type { Setup, WaitMessage, WorkMessage } from './messages.ts'
import { killOwnGroup, lowerPriority, openWorkLimits, startWatchdog } from './start-watchdog.ts'

/** Scheduling priority below the server's, so that requests do not wait for extraction. */
const niceness = 10

const [parentPid, memoryBytes] = process.argv.slice(2).map(Number) as [number, number]
const workLimits = openWorkLimits()

// Checked before anything slow: the server may have ended already.
process.on('disconnect', killOwnGroup)
if (!process.connected || process.ppid !== parentPid) killOwnGroup()
lowerPriority(niceness)
startWatchdog({ parentPid, memoryBytes, workLimits: workLimits.cell })

// PDF.js leaves rejected promises that belong to no call. A request whose promise is lost ends at its deadline.
process.on('unhandledRejection', (reason) => process.stderr.write(`unhandled rejection: ${reason}\n`))

process.once('message', async (setup: Setup) => {
  const { openWorkHandler } = await import('./work-handler.ts')
  const handle = openWorkHandler(setup)
  let waitMs = 0
  process.on('message', async (message: WorkMessage | WaitMessage) => {
    if ('waitMs' in message) {
      waitMs = message.waitMs
      return
    }
    const { work, timeoutMs } = message
    const endMs = performance.now() + timeoutMs
    waitMs = 0
    workLimits.set(timeoutMs)
    const answer = await handle(work, () => endMs + waitMs - performance.now())
    workLimits.clear()
    process.send?.(answer)
  })
})
