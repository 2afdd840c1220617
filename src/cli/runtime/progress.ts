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
  /** hides the spinner, so that a line can be printed; the next update shows it again */
  clear(): void
  /** prints the state now, in every mode */
  print(): void
  /** ends the phase */
  done(): void
}

type Writer = (text: string) => void
type Format = (state: ProgressState, seconds: number) => string

/** Interval between two lines. */
const intervalsMs = { plain: 10_000, json: 500 }

/** Starts the progress of `phase` ("upload"). `canSpin`: standard error is a terminal with a size. `now` returns milliseconds. */
export function startProgress(
  phase: string,
  options: Pick<GlobalOptions, 'progress' | 'isQuiet'>,
  canSpin: boolean,
  write: Writer,
  now = performance.now.bind(performance),
): Progress {
  const isJson = options.progress === 'json'
  const format: Format = isJson
    ? (state, seconds) => `${JSON.stringify(record(phase, state, seconds))}\n`
    : (state) => `${sentence(phase, state)}\n`
  if (isJson || options.progress === 'plain') return lines(format, isJson ? intervalsMs.json : intervalsMs.plain, write, now)
  if (options.progress === 'auto' && canSpin && !options.isQuiet) return spinner(phase, write)
  return lines(format, Number.POSITIVE_INFINITY, write, now)
}

/** Prints the first and the last state, and one per `interval` ms between them. Infinity: prints only on print(). */
function lines(format: Format, interval: number, write: Writer, now: () => number): Progress {
  const started = now()
  const isSilent = interval === Number.POSITIVE_INFINITY
  let written = Number.NEGATIVE_INFINITY
  let waiting: ProgressState | null = null
  let last: ProgressState = { done: 0 }
  const put = (state: ProgressState): void => {
    write(format(state, (now() - started) / 1000))
    written = now()
    waiting = null
  }
  return {
    update(state) {
      last = state
      if (isSilent) return
      if (now() - written >= interval) put(state)
      else waiting = state
    },
    clear() {},
    print: () => put(last),
    done() {
      if (waiting) put(waiting)
    },
  }
}

function spinner(phase: string, write: Writer): Progress {
  let text = phase
  let isDone = false
  let running: Ora | null = null
  // Imported lazily. Updates before the import has finished are shown afterwards.
  void import('ora').then(({ default: ora }) => {
    if (!isDone) running = ora({ text, stream: process.stderr, color: false, discardStdin: false }).start()
  })
  return {
    update(state) {
      text = sentence(phase, state)
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

export function sentence(phase: string, { done, total, bytes_done, bytes_total, current }: ProgressState): string {
  const count = total ? `${done}/${total} (${Math.floor((done / total) * 100)} %)` : String(done)
  const megabytes = (bytes: number): string => (bytes / 1e6).toFixed(1)
  const bytes = bytes_done === undefined ? '' : `  ${megabytes(bytes_done)}${bytes_total ? `/${megabytes(bytes_total)}` : ''} MB`
  return `${phase}  ${count}${bytes}${current ? `  ${escapeControls(current)}` : ''}`
}

function record(
  phase: string,
  { done, total = null, bytes_done = 0, bytes_total = null, current = '' }: ProgressState,
  seconds: number,
): object {
  const isCounted = total !== null && total > 0
  const share = bytes_total ? bytes_done / bytes_total : isCounted ? done / total : 0
  return {
    type: 'progress',
    phase,
    done,
    total,
    bytes_done,
    bytes_total,
    rate_bytes: seconds > 0 ? Math.round(bytes_done / seconds) : 0,
    eta_seconds: share > 0 ? Math.round((seconds / share) * (1 - share)) : null,
    current,
  }
}
