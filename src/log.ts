/** One line per event, on standard error: standard output is data. */
import pino, { type Logger } from 'pino'
import pretty from 'pino-pretty'

export type Log = Logger

export interface LogOptions {
  level: 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'silent'
  format: 'auto' | 'pretty' | 'json'
}

/** Secrets never reach a line, wherever in an object they hang. */
const redact = ['password', 'token', 'authorization', 'secret', 'cookie'].flatMap((key) => [key, `*.${key}`, `*.*.${key}`])

/** Opens the log. Writing is synchronous, so that the last line before an end is never lost. */
export function openLog({ level, format }: LogOptions): Log {
  const settings = { level, redact, base: null, messageKey: 'msg', timestamp: pino.stdTimeFunctions.isoTime, formatters: { level: (label: string) => ({ level: label }) } }
  const isPretty = format === 'pretty' || (format === 'auto' && process.stderr.isTTY === true)
  if (!isPretty) return pino(settings, pino.destination({ fd: 2, sync: true }))
  return pino(settings, pretty({ destination: 2, sync: true, translateTime: 'SYS:HH:MM:ss', ignore: 'pid,hostname', messageKey: 'msg' }))
}
