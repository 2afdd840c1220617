/** What systemd asks of a service: to be told how far it is, and to take the socket that was opened for it. */
import { execFile } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { ConfigError } from '../errors.ts'
import type { Log } from '../log/log.ts'

type Variables = Readonly<Record<string, string | undefined>>

const run = promisify(execFile)

export interface ServiceManager {
  /** It serves from now on; `status` is what `systemctl status` shows. */
  ready(status: string): Promise<void>
  /** It ends from now on. */
  stopping(): Promise<void>
  /** Says at each third of the time that the manager waits (WatchdogSec=) that all is well, as long as `isWell` comes true before the next; returns how to stop it. */
  startWatchdog(isHealthy: () => Promise<unknown>): () => void
}

/** The manager that started this process; where there is none, nothing is said. */
export function serviceManager(env: Variables, log: Log): ServiceManager {
  const notify = env.NOTIFY_SOCKET ? openNotifier(env, log) : async () => {}
  return {
    ready: (status) => notify('READY=1', `STATUS=${status}`),
    stopping: () => notify('STOPPING=1', 'STATUS=stopping'),
    startWatchdog: (isWell) => watch(env.NOTIFY_SOCKET ? watchdogInterval(env) : 0, isWell, () => notify('WATCHDOG=1'), log),
  }
}

/** Node cannot send datagrams to a unix socket; systemd's own program can, and waits until it was heard. */
function openNotifier(env: Variables, log: Log): (...words: string[]) => Promise<void> {
  return async (...words) => {
    try {
      await run('systemd-notify', words, { env: { PATH: env.PATH, NOTIFY_SOCKET: env.NOTIFY_SOCKET }, timeout: 10_000 })
    } catch (error) {
      log.warn({ err: error, words }, 'systemd could not be told')
    }
  }
}

/** Milliseconds between two signs of life, or 0 where none is wanted. */
function watchdogInterval({ WATCHDOG_USEC, WATCHDOG_PID }: Variables): number {
  return isForThisProcess(WATCHDOG_PID) ? Math.floor((Number(WATCHDOG_USEC) || 0) / 3000) : 0
}

/** Timers of a process whose event loop is stuck do not fire either: what is not said is the alarm. */
function watch(interval: number, isWell: () => Promise<unknown>, tell: () => Promise<void>, log: Log): () => void {
  const stop = new AbortController()
  const keepWatching = async () => {
    while (!stop.signal.aborted) {
      await sleep(interval, undefined, { signal: stop.signal, ref: false })
      const late = sleep(interval, 'late', { ref: false })
      const found = await Promise.race([isWell().then(() => 'well'), late]).catch(String)
      if (found === 'well') await tell()
      else log.error({ found }, 'not well: systemd is not told otherwise')
    }
  }
  if (interval > 0) keepWatching().catch(() => {})
  return () => stop.abort()
}

/** The number of the file that systemd has opened to listen on, or null. Throws ConfigError where there are several. */
export function passedSocket({ LISTEN_FDS, LISTEN_PID }: Variables): number | null {
  if (!LISTEN_FDS || !isForThisProcess(LISTEN_PID)) return null
  if (LISTEN_FDS !== '1') throw new ConfigError([`LISTEN_FDS=${LISTEN_FDS}: dms serves one socket; leave one ListenStream= in dms.socket`])
  return 3
}

/** These variables are inherited by children, whom they do not concern; but an old Node hands over to a child of its own (bin/dms.js). */
const isForThisProcess = (pid: string | undefined): boolean =>
  pid === undefined || pid === String(process.pid) || pid === String(process.ppid)
