/** Kills a process with SIGKILL at one of its system calls. */
import { setTimeout as sleep } from 'node:timers/promises'
import { processTree } from '../../support/processes/process-tree.ts'
import type { RunningProcess } from '../installation.ts'
import { attach } from './strace.ts'

/** one thread for files: calls have the same number each time */
export const oneFileThread = { UV_THREADPOOL_SIZE: '1' }
/** `before`: the call is not executed */
const moments = { before: 'error=EIO:signal=SIGKILL', after: 'signal=SIGKILL' } as const
export const bothMoments = Object.keys(moments) as CrashPoint['moment'][]
/** milliseconds to wait for calls after the last answer */
const afterwardsMs = 300

export interface CrashPoint {
  readonly call: string
  /** number of the call in its thread, from 1 */
  readonly at: number
  readonly moment: keyof typeof moments
}

export const nameOf = ({ call, at, moment }: CrashPoint): string => `${call}-${at}-${moment}`

/**
 * Runs `act` until the process reaches its crash point. Returns whether it was killed there. `act` returns false if the process was killed meanwhile.
 */
export async function crashAt(running: RunningProcess, { call, at, moment }: CrashPoint, act: () => Promise<boolean>): Promise<boolean> {
  const inject = `inject=${call}:${moments[moment]}:when=${at}`
  const strace = await attach(running.pid, ['-o', '/dev/null', '-e', `trace=${call}`, '-e', inject])
  const wasAnswered = await act()
  await Promise.race([running.ended, sleep(wasAnswered ? afterwardsMs : 20_000)])
  await strace.detach()
  // The process may be killed until strace is detached, and Node learns of its end later.
  if (processTree(running.pid).length === 0) await running.ended
  return !running.isRunning()
}

/** Returns random crash points. `calls`: system calls with the maximum number of each in one act. */
export function randomPoints(calls: Readonly<Record<string, number>>, count: number): CrashPoint[] {
  const names = Object.keys(calls)
  return Array.from({ length: count }, () => {
    const call = names[Math.floor(Math.random() * names.length)] ?? ''
    const moment = bothMoments[Math.floor(Math.random() * bothMoments.length)] ?? 'after'
    return { call, at: 1 + Math.floor(Math.random() * (calls[call] ?? 1)), moment }
  })
}
