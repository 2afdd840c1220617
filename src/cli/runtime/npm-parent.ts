/** Detects the end of the npm process that started this command (Linux). It does not forward every signal. */
import { readFileSync } from 'node:fs'

type Variables = Readonly<Record<string, string | undefined>>

interface Process {
  readonly pid: number
  readonly parentPid: number
  readonly session: number
  /** identifies the process together with the pid */
  readonly startTime: string
}

const intervalMs = 500
/** A closed terminal sends SIGHUP to npm and to this process; events within this time belong together. */
const hangupMs = 5000
/** Start of the command line of npm, pnpm and yarn, which overwrite their process title. */
const packageManager = /^(?:\S*\/)?(?:node |bun )?\S*?\b(?:npm|npx|pnpm|pnpx|yarn|yarnpkg)(?:-cli)?(?:\.[cm]?js)?(?: |$)/

/**
 * Calls `onGone` once when npm has ended before this process. Returns a function that stops watching. npm sends SIGTERM to the shell that runs its
 * scripts, and the shell ends without forwarding it. SIGKILL ends npm only. Does not watch for a detached process: one in another session (setsid),
 * or one whose shell has exited (`dms serve &` in a script). Node resets ignored signals, so nohup does not protect npm: a closed terminal ends npm,
 * which is not a request to stop.
 */
export function watchNpmParent(env: Variables, onGone: () => void): () => void {
  const npm = findNpm(env)
  if (npm === null) return () => {}
  let hangup = Number.NEGATIVE_INFINITY
  const onHangup = (): void => {
    hangup = performance.now()
  }
  let isGone = false
  const timer = setInterval(() => {
    // The signal may arrive after the end of npm, so the decision waits for the next interval.
    const wasGone = isGone
    isGone = npm === 'gone' || !isRunning(npm)
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

/** Returns the nearest package manager above this process; `gone` if only its shell is left; null if there is none or this process is detached. */
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

/** Reads a running process from /proc; null if it has ended. */
function readProcess(pid: number): Process | null {
  const stat = read(`/proc/${pid}/stat`)
  // The name in parentheses may contain spaces and parentheses.
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
