/** Service protocol of systemd: notifications, watchdog and socket activation. */
import { execFile } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { ConfigError } from '../errors.ts'
import type { Log } from '../log/log.ts'

type Variables = Readonly<Record<string, string | undefined>>

const run = promisify(execFile)

export interface ServiceManager {
  /** Reports readiness. `systemctl status` shows `status`. */
  ready(status: string): Promise<void>
  /** Reports the stop. */
  stopping(): Promise<void>
  /** Notifies systemd three times per WatchdogSec= while `checkHealth` succeeds in time. Returns a function that stops the notifications. */
  startWatchdog(checkHealth: () => Promise<unknown>): () => void
}

/** Returns the service manager of this process. Without systemd, it does nothing. */
export function serviceManager(env: Variables, log: Log): ServiceManager {
  const notify = env.NOTIFY_SOCKET ? openNotifier(env, log) : async () => {}
  return {
    ready: (status) => notify('READY=1', `STATUS=${status}`),
    stopping: () => notify('STOPPING=1', 'STATUS=stopping'),
    startWatchdog: (checkHealth) => watch(env.NOTIFY_SOCKET ? watchdogIntervalMs(env) : 0, checkHealth, () => notify('WATCHDOG=1'), log),
  }
}

/** Notifies with systemd-notify, because Node cannot send datagrams to a Unix socket. */
function openNotifier(env: Variables, log: Log): (...variables: string[]) => Promise<void> {
  return async (...variables) => {
    try {
      await run('systemd-notify', variables, { env: { PATH: env.PATH, NOTIFY_SOCKET: env.NOTIFY_SOCKET }, timeout: 10_000 })
    } catch (error) {
      log.warn({ err: error, words: variables }, 'cannot notify systemd')
    }
  }
}

/** Returns the time between two notifications, or 0 without a watchdog. */
function watchdogIntervalMs({ WATCHDOG_USEC, WATCHDOG_PID }: Variables): number {
  return isForThisProcess(WATCHDOG_PID) ? Math.floor((Number(WATCHDOG_USEC) || 0) / 3000) : 0
}

/** Notifies as long as the event loop and the check work. Without notifications, systemd restarts the service. */
function watch(intervalMs: number, checkHealth: () => Promise<unknown>, notify: () => Promise<void>, log: Log): () => void {
  const stop = new AbortController()
  const keepWatching = async () => {
    while (!stop.signal.aborted) {
      await sleep(intervalMs, undefined, { signal: stop.signal, ref: false })
      const timeout = sleep(intervalMs, 'timeout', { ref: false })
      const result = await Promise.race([checkHealth().then(() => 'ok'), timeout]).catch(String)
      if (result === 'ok') await notify()
      else log.error({ found: result }, 'health check failed: systemd is not notified')
    }
  }
  if (intervalMs > 0) keepWatching().catch(() => {})
  return () => stop.abort()
}

/** Returns the file descriptor of the socket from systemd, or null. Throws ConfigError for several. */
export function passedSocketFd({ LISTEN_FDS, LISTEN_PID }: Variables): number | null {
  if (!LISTEN_FDS || !isForThisProcess(LISTEN_PID)) return null
  if (LISTEN_FDS !== '1') throw new ConfigError([`LISTEN_FDS=${LISTEN_FDS}: dms serves one socket; leave one ListenStream= in dms.socket`])
  return 3
}

/** Tells if inherited variables are for this process or its parent: bin/dms.js may start a newer Node as a child. */
const isForThisProcess = (pid: string | undefined): boolean =>
  pid === undefined || pid === String(process.pid) || pid === String(process.ppid)
