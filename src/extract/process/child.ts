/** Program of a reader process: runs the requests of the server one at a time. */
import type { Setup, WorkMessage } from './messages.ts'
import { deadlineCell, killGroup, lowerPriority, startWatchdog } from './start-watchdog.ts'

/** Scheduling priority below the server's, so that requests do not wait for extraction. */
const niceness = 10

const [parentPid, memoryBytes] = process.argv.slice(2).map(Number) as [number, number]
const deadlineNs = deadlineCell()

// Checked before anything slow: the server may have ended already.
process.on('disconnect', killGroup)
if (!process.connected || process.ppid !== parentPid) killGroup()
lowerPriority(niceness)
startWatchdog({ parentPid, memoryBytes, deadlineNs })

// PDF.js leaves rejected promises that belong to no call. A request whose promise is lost ends at its deadline.
process.on('unhandledRejection', (reason) => process.stderr.write(`unhandled rejection: ${reason}\n`))

process.once('message', async (setup: Setup) => {
  const { openWorkHandler } = await import('./work-handler.ts')
  const handle = openWorkHandler(setup)
  process.on('message', async ({ work, timeoutMs }: WorkMessage) => {
    Atomics.store(deadlineNs, 0, process.hrtime.bigint() + BigInt(Math.ceil(timeoutMs)) * 1_000_000n)
    const answer = await handle(work, timeoutMs)
    Atomics.store(deadlineNs, 0, 0n)
    process.send?.(answer)
  })
})
