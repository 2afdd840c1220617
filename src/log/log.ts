/** Log with one line per event, on standard error or in a file. */
import { closeSync, openSync } from 'node:fs'
import pino, { type Logger } from 'pino'
import pretty from 'pino-pretty'
import { environment } from '../config/environment.ts'
import { ConfigError, formatFileError } from '../errors.ts'
import { escapeControls, escapeControlsInJson } from './escape.ts'
import { formatLogfmt } from './logfmt.ts'
import { isJournal } from './systemd-journal.ts'

export type Log = Logger

export interface LogOptions {
  level: 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'silent'
  format: 'auto' | 'pretty' | 'logfmt' | 'json'
  /** Path of a log file. Default: standard error. */
  file?: string
}

/** Fields whose values are never logged. */
const redactedPaths = ['password', 'token', 'authorization', 'secret', 'cookie'].flatMap((key) => [key, `*.${key}`, `*.*.${key}`])

/** Size of the lines that wait while the disk is full. Later lines are dropped. */
const maxPendingBytes = 1 << 20

/**
 * Opens the log. Writes are synchronous: no line is lost at exit. `reopen()` creates the file again after logrotate has renamed it. Never throws
 * for a failed write or reopening. Throws ConfigError for a file that cannot be opened.
 */
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
    // Not a stream of pino-pretty: it closes its target after the first line that cannot be written.
    hooks: { streamWrite: isPretty ? toPrettyLine : format === 'logfmt' ? formatLogfmt : escapeControlsInJson },
  }
  const target = openTarget(file)
  const stream = !isPretty && file === '' && isJournal(environment()) ? withPriority(target) : target
  const log: Log = pino(settings, stream)
  const reopen = () => {
    if (file === '') return
    try {
      // After a failed target.reopen(), the next one would close its descriptor twice.
      closeSync(openSync(file, 'a'))
      target.reopen()
    } catch (error) {
      log.error({ err: error }, 'cannot reopen the log file; the old one stays in use')
    }
  }
  return Object.assign(log, { reopen })
}

/** Opens the log file, or standard error. Lines that cannot be written are tried again with the next line. Throws ConfigError. */
function openTarget(file: string) {
  // With minLength 0, flush() does nothing.
  const options = { sync: true, minLength: 1, maxLength: maxPendingBytes }
  const target = openDestination(file === '' ? { ...options, fd: 2 } : { ...options, dest: file, append: true })
  target.on('error', () => {})
  // A dropped line tries to write those that wait.
  target.on('drop', () => target.flush())
  return target
}

function openDestination(options: NonNullable<Parameters<typeof pino.destination>[0]>): ReturnType<typeof pino.destination> {
  try {
    return pino.destination(options)
  } catch (error) {
    throw new ConfigError([formatFileError(`log.file: ${(error as Error).message}`)])
  }
}

const formatPretty = pretty.prettyFactory({ translateTime: 'SYS:HH:MM:ss', ignore: 'pid,hostname', messageKey: 'msg' })

/** Formats a line of JSON for people. Escapes control characters in its values. */
const toPrettyLine = (line: string): string => formatPretty(escapeValues(JSON.parse(line), '')) ?? ''

function escapeValues(value: unknown, name: string): unknown {
  // A stack keeps its line breaks.
  if (typeof value === 'string') return name === 'stack' ? value.split('\n').map(escapeControls).join('\n') : escapeControls(value)
  if (Array.isArray(value)) return value.map((element) => escapeValues(element, name))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [escapeControls(key), escapeValues(member, key)]))
}

/** Priorities of the journal by levels of pino. */
const priorities: Readonly<Record<number, number>> = { 10: 7, 20: 7, 30: 6, 40: 4, 50: 3, 60: 2 }

/** Adds priorities to lines. pino sets `lastLevel` on streams with its symbol. */
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
 * Runs `work` and returns its result. Meanwhile, SIGHUP reopens the log for logrotate and reads its level again, and SIGUSR1 logs the status.
 */
export async function onSignals<T>(
  log: Log & { reopen(): void },
  { readLevel, logStatus }: { readLevel(): Promise<string>; logStatus(): void },
  work: () => Promise<T>,
): Promise<T> {
  const reopen = () => {
    log.reopen()
    readLevel()
      .then((level) => {
        log.level = level
      })
      .catch((error: Error) => log.error({ err: error.message }, 'cannot read the log level; the old one stays in use'))
  }
  process.on('SIGHUP', reopen).on('SIGUSR1', logStatus)
  try {
    return await work()
  } finally {
    process.off('SIGHUP', reopen).off('SIGUSR1', logStatus)
  }
}

/** Serializes the common fields of an error. Errors of the database also have rows and parameters, which are content of users. */
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
