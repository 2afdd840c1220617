/** The program in a reader process: does what the server asks for, one work at a time. */
import { setPriority } from 'node:os'
import type { Setup, WorkMessage } from './messages.ts'
import { deadlineCell, killGroup, startWatchdog } from './start-watchdog.ts'

/** Lower than the server's, so that reading never makes users wait. */
const niceness = 10

const [parentPid, memoryBytes] = process.argv.slice(2).map(Number) as [number, number]
const deadlineNs = deadlineCell()

// Before anything that takes time: the server may be gone already.
process.on('disconnect', killGroup)
if (!process.connected || process.ppid !== parentPid) killGroup()
setPriority(niceness)
startWatchdog({ parentPid, memoryBytes, deadlineNs })

process.once('message', async (setup: Setup) => {
  const { openWorkHandler } = await import('./work-handler.ts')
  const handle = openWorkHandler(setup)
  process.on('message', async ({ work, timeoutMs }: WorkMessage) => {
    Atomics.store(deadlineNs, 0, process.hrtime.bigint() + BigInt(Math.ceil(timeoutMs)) * 1_000_000n)
    const answer = await handle(work)
    Atomics.store(deadlineNs, 0, 0n)
    process.send?.(answer)
  })
})
