/** Progress of a long command, on standard error. */
import type { Ora } from 'ora'
import { escapeControls } from '../../log/escape.ts'
import type { GlobalOptions } from './options.ts'

export interface ProgressState {
  readonly done: number
  readonly total?: number | null
  readonly bytes_done?: number
  readonly bytes_total?: number | null
  /** item in progress */
  readonly current?: string
}

export interface Progress {
  update(state: ProgressState): void
  /** hides the spinner before another line is printed; the next update shows it again */
  clear(): void
  /** prints the state now, in every mode */
  print(): void
  /** ends the phase */
  done(): void
}

type Writer = (text: string) => void
type Format = (state: ProgressState, speed: Speed) => string

/** Interval between two lines, and time over which the rate is measured. */
const intervalsMs = { plain: 10_000, json: 500, rate: 10_000 }

interface Speed {
  /** bytes per second; null in the first half second */
  readonly rate: number | null
  /** remaining seconds; null if unknown */
  readonly eta: number | null
}

/** Starts the progress of `phase` ("upload"). `canSpin`: standard error is a terminal with a size. `now` returns milliseconds. */
export function startProgress(
  phase: string,
  options: Pick<GlobalOptions, 'progress' | 'isQuiet'>,
  canSpin: boolean,
  write: Writer,
  now = performance.now.bind(performance),
): Progress {
  const isJson = options.progress === 'json'
  const measure = openSpeedometer(now)
  const format: Format = isJson
    ? (state, speed) => `${JSON.stringify(record(phase, state, speed))}\n`
    : (state, speed) => `${sentence(phase, state, speed)}\n`
  if (isJson || options.progress === 'plain') return lines(format, isJson ? intervalsMs.json : intervalsMs.plain, write, now, measure)
  if (options.progress === 'auto' && canSpin && !options.isQuiet) return spinner(phase, write, measure)
  return lines(format, Number.POSITIVE_INFINITY, write, now, measure)
}

/** Prints the progress on SIGUSR1 until it is done. Calls `onDone` once. */
export function printOnSignal(progress: Progress, onDone: () => void): Progress {
  let isDone = false
  process.on('SIGUSR1', progress.print)
  return {
    ...progress,
    done() {
      if (isDone) return
      isDone = true
      process.removeListener('SIGUSR1', progress.print)
      progress.done()
      onDone()
    },
  }
}

type Measure = (state: ProgressState) => Speed

/** Measures the speed over the last seconds. A pause, or content that need not be sent, affects it only briefly. */
function openSpeedometer(now: () => number): Measure {
  const samples = [{ at: now(), bytes: 0, done: 0 }]
  return ({ done, total, bytes_done: bytes = 0, bytes_total }) => {
    const at = now()
    const last = samples.at(-1)
    if (!last || at - last.at >= intervalsMs.rate / 20) samples.push({ at, bytes, done })
    while (samples.length > 2 && at - (samples[1]?.at ?? at) >= intervalsMs.rate) samples.shift()
    const first = samples[0] ?? { at, bytes, done }
    const seconds = (at - first.at) / 1000
    if (seconds < intervalsMs.json / 1000) return { rate: null, eta: null }
    const rate = Math.max(0, bytes - first.bytes) / seconds
    const [remaining, speed] = bytes_total ? [bytes_total - bytes, rate] : [(total ?? 0) - done, (done - first.done) / seconds]
    return { rate, eta: total && speed > 0 ? Math.max(0, remaining) / speed : null }
  }
}

/** Prints the first state, the last state, and one state per `intervalMs`. Infinity: prints only on print(). */
function lines(format: Format, intervalMs: number, write: Writer, now: () => number, measure: Measure): Progress {
  const isSilent = intervalMs === Number.POSITIVE_INFINITY
  let written = Number.NEGATIVE_INFINITY
  let waiting: ProgressState | null = null
  let last: ProgressState = { done: 0 }
  const put = (state: ProgressState): void => {
    write(format(state, measure(state)))
    written = now()
    waiting = null
  }
  return {
    update(state) {
      last = state
      measure(state)
      if (isSilent) return
      if (now() - written >= intervalMs) put(state)
      else waiting = state
    },
    clear() {},
    print: () => put(last),
    done() {
      if (waiting) put(waiting)
    },
  }
}

function spinner(phase: string, write: Writer, measure: Measure): Progress {
  let text = phase
  let isDone = false
  let running: Ora | null = null
  // Imported lazily. Updates before the import has finished are shown afterwards.
  void import('ora').then(({ default: ora }) => {
    if (!isDone) running = ora({ text, stream: process.stderr, color: false, discardStdin: false }).start()
  })
  return {
    update(state) {
      text = sentence(phase, state, measure(state))
      if (running) running.text = text
    },
    clear() {
      running?.clear()
    },
    print() {
      running?.clear()
      write(`${text}\n`)
    },
    done() {
      isDone = true
      running?.stop()
    },
  }
}

/** Returns `upload  512/764 (67 %)  1.6/2.4 GB  11.2 MB/s  ETA 1m12s  scans/17.pdf`. */
function sentence(phase: string, { done, total, bytes_done, bytes_total, current }: ProgressState, { rate, eta }: Speed): string {
  const share = bytes_total ? (bytes_done ?? 0) / bytes_total : done / (total || 1)
  const parts = [phase, total ? `${done}/${total} (${Math.floor(Math.min(1, share) * 100)} %)` : String(done)]
  if (bytes_done !== undefined) {
    const [unit, size] = unitOf(bytes_total || bytes_done)
    const amount = (bytes: number): string => (bytes / size).toFixed(size === 1 ? 0 : 1)
    parts.push(`${amount(bytes_done)}${bytes_total ? `/${amount(bytes_total)}` : ''} ${unit}`)
    if (rate !== null) {
      const [rateUnit, rateSize] = unitOf(rate)
      parts.push(`${(rate / rateSize).toFixed(1)} ${rateUnit}/s`)
    }
  }
  if (eta !== null && done < (total ?? 0)) parts.push(`ETA ${formatSeconds(eta)}`)
  if (current) parts.push(escapeControls(current))
  return parts.join('  ')
}

const units = [
  ['GB', 1e9],
  ['MB', 1e6],
  ['kB', 1e3],
] as const

const unitOf = (bytes: number) => units.find(([, size]) => bytes >= size) ?? (['B', 1] as const)

function formatSeconds(seconds: number): string {
  const hours = Math.floor(seconds / 3600)
  const minutes = Math.floor((seconds % 3600) / 60)
  const rest = Math.ceil(seconds % 60)
  if (hours > 0) return `${hours}h${minutes}m`
  return minutes > 0 ? `${minutes}m${rest}s` : `${rest}s`
}

function record(
  phase: string,
  { done, total = null, bytes_done = 0, bytes_total = null, current = '' }: ProgressState,
  { rate, eta }: Speed,
): object {
  const eta_seconds = eta === null ? null : Math.round(eta)
  return { type: 'progress', phase, done, total, bytes_done, bytes_total, rate_bytes: Math.round(rate ?? 0), eta_seconds, current }
}
