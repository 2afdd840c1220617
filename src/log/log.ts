/** One line per event, on standard error (or in a file): standard output is data. */
import pino, { type Logger } from 'pino'
import pretty from 'pino-pretty'
import { environment } from '../config/environment.ts'
import { escapeControls, escapeControlsInJson } from './escape.ts'
import { isJournal } from './systemd-journal.ts'

export type Log = Logger

export interface LogOptions {
  level: 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'silent'
  format: 'auto' | 'pretty' | 'json'
  /** a file instead of standard error; '' or undefined: none */
  file?: string
}

/** Secrets never reach a line, wherever in an object they hang. */
const redactedPaths = ['password', 'token', 'authorization', 'secret', 'cookie'].flatMap((key) => [key, `*.${key}`, `*.*.${key}`])

/** Opens the log. Writing is synchronous, so that the last line before an end is never lost; `reopen()` makes a file anew after it was moved away. */
export function openLog({ level, format, file = '' }: LogOptions): Log & { reopen(): void } {
  const isPretty = format === 'pretty' || (format === 'auto' && file === '' && process.stderr.isTTY === true)
  const settings = {
    level,
    redact: redactedPaths,
    base: null,
    messageKey: 'msg',
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    serializers: { err: serializeError },
    hooks: { streamWrite: isPretty ? toPrettyLine : escapeControlsInJson },
  }
  const target = file === '' ? pino.destination({ fd: 2, sync: true }) : pino.destination({ dest: file, sync: true, append: true })
  const stream = isPretty
    ? pretty({ destination: target, sync: true, translateTime: 'SYS:HH:MM:ss', ignore: 'pid,hostname', messageKey: 'msg' })
    : file === '' && isJournal(environment())
      ? withPriority(target)
      : target
  return Object.assign(pino(settings, stream), { reopen: () => file !== '' && target.reopen() }) as Log & { reopen(): void }
}

/** A line that pretty may write out as text. */
const toPrettyLine = (line: string): string => `${JSON.stringify(escapeValues(JSON.parse(line), ''))}\n`

function escapeValues(value: unknown, name: string): unknown {
  // Its frames stand one below the other, indented.
  if (typeof value === 'string') return name === 'stack' ? value.split('\n').map(escapeControls).join('\n') : escapeControls(value)
  if (Array.isArray(value)) return value.map((one) => escapeValues(one, name))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, inside]) => [escapeControls(key), escapeValues(inside, key)]))
}

/** The journal's priorities, by pino's levels. */
const priorities: Readonly<Record<number, number>> = { 10: 7, 20: 7, 30: 6, 40: 4, 50: 3, 60: 2 }

/** pino leaves the level of each line on a stream that has its mark. */
function withPriority(target: { write(line: string): unknown }) {
  return {
    [Symbol.for('pino.metadata')]: true,
    lastLevel: 30,
    write(line: string) {
      target.write(`<${priorities[this.lastLevel] ?? 6}>${line}`)
    },
  }
}

/**
 * While `work` runs, SIGHUP reopens the log (logrotate moves files away and says so) and takes its level from `levelNow`, and SIGUSR1 calls
 * `tell`; returns what `work` returns.
 */
export async function onSignals<T>(
  log: Log & { reopen(): void },
  { levelNow: readLevel, tell: onStatusSignal }: { levelNow(): Promise<string>; tell(): void },
  work: () => Promise<T>,
): Promise<T> {
  const reopen = () => {
    log.reopen()
    readLevel()
      .then((level) => {
        log.level = level
      })
      .catch((error: Error) => log.error({ err: error.message }, 'the level of the log stays as it was'))
  }
  process.on('SIGHUP', reopen).on('SIGUSR1', onStatusSignal)
  try {
    return await work()
  } finally {
    process.off('SIGHUP', reopen).off('SIGUSR1', onStatusSignal)
  }
}

/** What an error says of itself, and no more: those of the database carry rows and parameters, which are users' texts. */
function serializeError(error: unknown): unknown {
  if (!(error instanceof Error)) return error
  const { name, message, stack, cause } = error
  const { code } = error as { code?: unknown }
  return {
    type: name,
    code,
    message: message.slice(0, 500),
    stack: stack?.slice(0, 4000),
    ...(cause === undefined ? {} : { cause: serializeError(cause) }),
  }
}
