/** Notices when the npm, or the launcher of ours, that a command was started through is gone (Linux). Neither passes on every signal. */
import { readFileSync } from 'node:fs'

type Variables = Readonly<Record<string, string | undefined>>

interface Process {
  readonly pid: number
  readonly parentPid: number
  readonly session: number
  /** with the pid it names a process for good */
  readonly startTime: string
}

const intervalMs = 500
/** A terminal that closes sends SIGHUP to npm and to us at once: what comes within this time belongs together. */
const hangupMs = 5000
/** The first words of npm and its like: it writes them over its own command line. */
const packageManager = /^(?:\S*\/)?(?:node |bun )?\S*?\b(?:npm|npx|pnpm|pnpx|yarn|yarnpkg)(?:-cli)?(?:\.[cm]?js)?(?: |$)/

/**
 * Calls `onGone` once, when npm or the launcher (DMS_LAUNCHER_PID, see bin/dms.js) has ended while this process goes on. Returns how to stop watching.
 *
 * npm passes SIGTERM to the shell that it runs scripts in, and the shell ends without passing it on; SIGKILL reaches npm alone. A process that was
 * detached on purpose is not watched: one in another session (setsid), and one whose shell has left it (`dms serve &` in a script).
 * nohup does not hold for npm, as Node resets ignored signals, so the end of a terminal ends npm and nothing else: that is no request to stop.
 */
export function watchNpmParent(env: Variables, onGone: () => void): () => void {
  const watched = [findLauncher(env), findNpm(env)].filter((one) => one !== null)
  if (watched.length === 0) return () => {}
  let hangup = Number.NEGATIVE_INFINITY
  const onHangup = (): void => {
    hangup = performance.now()
  }
  let isGone = false
  const timer = setInterval(() => {
    // The signal may come a moment after the end that it goes with: judged at the next look.
    const wasGone = isGone
    isGone = watched.some((one) => one === 'gone' || !isRunning(one))
    if (!isGone || !wasGone) return
    stop()
    if (performance.now() - hangup > hangupMs) onGone()
  }, intervalMs)
  timer.unref()
  process.on('SIGHUP', onHangup)
  const stop = (): void => {
    clearInterval(timer)
    process.off('SIGHUP', onHangup)
  }
  return stop
}

function findLauncher({ DMS_LAUNCHER_PID: pid }: Variables): Process | 'gone' | null {
  if (!pid) return null
  const launcher = readProcess(Number(pid))
  // Programs that a dms starts inherit the variable: to them the launcher is no parent.
  return launcher && process.ppid !== launcher.pid ? null : (launcher ?? 'gone')
}

/** The nearest package manager above this process; `gone` where only its shell is left; null where there is none, or this process was detached. */
function findNpm({ npm_command: command, npm_lifecycle_script: script = '' }: Variables): Process | 'gone' | null {
  const self = readProcess(process.pid)
  if (command === undefined || !self) return null
  let hasShell = false
  for (let one = readProcess(self.parentPid); one && one.session === self.session; one = readProcess(one.parentPid)) {
    const words = readCommandLine(one.pid)
    if (packageManager.test(words)) return one
    if (script !== '' && words.includes(`-c ${script}`)) hasShell = true
  }
  return hasShell ? 'gone' : null
}

function isRunning({ pid, startTime }: Process): boolean {
  return readProcess(pid)?.startTime === startTime
}

/** What the kernel says of a process that has not ended; null of any other. */
function readProcess(pid: number): Process | null {
  const stat = read(`/proc/${pid}/stat`)
  // The name in parentheses may hold spaces and parentheses.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const [state = '', parentPid, , session] = fields
  if (stat === '' || /[ZX]/.test(state)) return null
  return { pid, parentPid: Number(parentPid), session: Number(session), startTime: fields[19] ?? '' }
}

const readCommandLine = (pid: number): string => read(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').trim()

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
