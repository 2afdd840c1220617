/** Looking at something once, or (`--watch`) again and again. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Command } from 'commander'
import { parseDurationFlag } from '../arguments/flag-values.ts'
import type { Cli } from './context.ts'

/** Milliseconds between two looks, at least: a server counts its calls. */
const minIntervalMs = 200

/** As commander hands it over: the flag alone is true. */
export type WatchFlag = string | true | undefined

export const addWatchFlag = (command: Command): Command => command.option('--watch [interval]', 'again and again; default: every 2s')

/** Looks, and with --watch goes on until Ctrl-C, which is the normal end then; SIGTERM is none. `open` makes the one who looks. Throws Failure USAGE. */
export async function runOrWatch(cli: Cli, watch: WatchFlag, open: () => Promise<() => Promise<void>>): Promise<void> {
  const interval = watch === undefined ? null : Math.max(minIntervalMs, parseDurationFlag('--watch', watch === true ? '2s' : watch))
  // Asked for before anything else asks for a signal that would be an interruption.
  const signal = interval === null ? null : cli.serviceSignal
  const look = await open()
  await look()
  if (interval === null || signal === null) return
  while (!signal.aborted) {
    await sleep(interval, undefined, { signal }).catch(() => {})
    if (!signal.aborted) await look()
  }
  setWatchExit(cli, signal)
}

/** What was to go on until somebody stops it has the exit of what stopped it: 0 for Ctrl-C, unless something `isAwaited` that did not come. */
export function setWatchExit(cli: Cli, { reason }: AbortSignal, isAwaited = false): void {
  const { message } = reason as Error
  if (message.includes('SIGTERM')) cli.exit = 'TERMINATED'
  else if (isAwaited && message.includes('SIGINT')) cli.exit = 'INTERRUPTED'
}
