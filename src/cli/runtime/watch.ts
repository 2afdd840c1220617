/** Commands with --watch. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Command } from 'commander'
import { maxTimer, parseDurationFlag } from '../arguments/flag-values.ts'
import type { Cli } from './context.ts'

/** Shortest interval; a server limits its requests. */
const minIntervalMs = 200

/** Value from commander: true without an interval. */
export type WatchFlag = string | true | undefined

export const addWatchFlag = (command: Command): Command => command.option('--watch [interval]', 'repeat at this interval (default: 2s)')

/** Runs once, or with --watch until SIGINT, which is the normal end. `open` returns the function to run. Throws Failure USAGE. */
export async function runOrWatch(cli: Cli, watch: WatchFlag, open: () => Promise<() => Promise<void>>): Promise<void> {
  const interval =
    watch === undefined ? null : Math.max(minIntervalMs, parseDurationFlag('--watch', watch === true ? '2s' : watch, maxTimer))
  // Read before `signal`, which would treat SIGINT as an interruption.
  const signal = interval === null ? null : cli.serviceSignal
  const run = await open()
  await run()
  if (interval === null || signal === null) return
  while (!signal.aborted) {
    await sleep(interval, undefined, { signal }).catch(() => {})
    if (!signal.aborted) await run()
  }
  setWatchExit(cli, signal)
}

/** Sets the exit of an endless command: TERMINATED for SIGTERM, INTERRUPTED for SIGINT if it `isAwaited`, else OK. */
export function setWatchExit(cli: Cli, { reason }: AbortSignal, isAwaited = false): void {
  const { message } = reason as Error
  if (message.includes('SIGTERM')) cli.exit = 'TERMINATED'
  else if (isAwaited && message.includes('SIGINT')) cli.exit = 'INTERRUPTED'
}
