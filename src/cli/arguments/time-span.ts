/** Dates in flags, and the flags of a time span. */
import { type Command, Option } from 'commander'
import { isCalendarDate, normalizeDate, type Period, parsePeriod } from '../../calendar.ts'
import type { Client } from '../../client/client.ts'
import type { Cli } from '../runtime/context.ts'
import { usage } from '../runtime/exit.ts'
import { parseDurationFlag } from './flag-values.ts'

export interface TimeSpanFlags {
  since?: string
  until?: string
  /** alias of --since */
  from?: string
  /** alias of --until, unless --to is the target of the command */
  to?: string
}

/** Adds --since and --until, and their aliases --from and --to. `subject` is "created " in "created at this time or later". */
export function addTimeSpanFlags(command: Command, subject: string, { hasTo = true } = {}): Command {
  const flag = (name: string, description: string): Option => checkedOption(`${name} <when>`, description, (text) => parseWhen(name, text))
  command
    .addOption(flag('--since', `${subject}at this time or later: 7d, yesterday, 2026-11-20, 2026-11-20T08:00:00Z`))
    .addOption(flag('--until', `${subject}at this time or earlier; a date means its end (UTC)`))
    .addOption(flag('--from', 'alias of --since').hideHelp().conflicts('since'))
  return hasTo ? command.addOption(flag('--to', 'alias of --until').hideHelp().conflicts('until')) : command
}

/** Returns the limits of the time span as dates or times of the API. `now`: that of the server, in ms since 1970. */
export function timeSpanOf({ since, until, from, to }: TimeSpanFlags, now: number) {
  const parse = (flag: string, text: string | undefined) => (text === undefined ? undefined : parseWhen(flag, text, { now }))
  return { from: parse('--since', since ?? from), to: parse('--until', until ?? to) }
}

/** Returns the flag for the date of documents. parsePeriodFlag() converts its value. */
export const periodFlag = (): Option =>
  checkedOption('--date <period>', 'only with this document date: 2026, 2026-03, yesterday, 2025..2026-03', (text) =>
    parsePeriodFlag('--date', text),
  )

/** Returns a flag for a time to come. parseFutureTime() converts its value. */
export const futureTimeFlag = (name: string, description: string): Option =>
  checkedOption(`${name} <when>`, description, (text) => parseWhen(name, text, { isAhead: true }))

/** Returns an option whose value is checked before the command begins, and converted once the time of the server is known. */
const checkedOption = (flags: string, description: string, check: (text: string) => unknown): Option =>
  new Option(flags, description).argParser((text: string) => {
    check(text)
    return text
  })

const days: Readonly<Record<string, number>> = { yesterday: -1, today: 0, tomorrow: 1 }
const dayMs = 86_400_000

/**
 * Converts a date, a time, yesterday, today, tomorrow (in UTC) or a duration to a date or time of the API. A duration counts back from now,
 * or ahead with `isAhead`. Throws Failure USAGE.
 */
export function parseWhen(flag: string, text: string, { isAhead = false, now = Date.now() } = {}): string {
  const word = normalizeDate(text.trim().toLowerCase())
  if (word === 'now') return new Date(now).toISOString()
  if (Object.hasOwn(days, word)) return new Date(now + (days[word] ?? 0) * dayMs).toISOString().slice(0, 10)
  const [, day, time, zone] = /^(\d{4}-\d\d-\d\d)(?:(t\d\d:\d\d(?::\d\d(?:\.\d+)?)?)(z|[+-]\d\d:\d\d)?)?$/.exec(word) ?? []
  if (day !== undefined && isCalendarDate(day) && !Number.isNaN(Date.parse(word))) {
    // Without a zone it would be the time of this machine, which may be in another zone than the server.
    if (time !== undefined && zone === undefined)
      throw usage(`${flag} ${text}: a time needs Z or an offset, as in 2026-11-20T08:00:00+01:00`)
    return word.toUpperCase()
  }
  // A number alone would be seconds, but 2026 is meant as a year, and --expires 7 as days.
  if (!/^\d+(\.\d+)?\s*[a-z]+$/.test(word))
    throw usage(`${flag} ${text}: not a date, a time or a duration such as yesterday, 2026-11-20, 2026-11-20T08:00:00Z or 7d`)
  const ms = parseDurationFlag(flag, word)
  return new Date(now + (isAhead ? ms : -ms)).toISOString()
}

/** Returns the time of the server, in ms since 1970. Times that the server has set are compared with it: the clock of this machine may be wrong. */
export const findServerTime = async ({ options }: Cli, { health }: Client): Promise<number> =>
  // The request would be printed in place of the one that was asked for.
  options.printCurl ? Date.now() : (await health.time()).getTime()

/**
 * Returns the time, in ms since 1970, from which the limits of a time span or a period count: that of the server if one of them is relative, such as 7d
 * or yesterday, else that of this machine, which saves a request.
 */
export async function findReferenceTime(
  cli: Cli,
  client: Client,
  { since, until, from, to }: TimeSpanFlags,
  period?: string,
): Promise<number> {
  const days = [since, until, from, to, period].flatMap((text = '') => text.split('..'))
  return days.some((day) => /[a-z]\s*$/i.test(day) && !/^\s*\d{4}-/.test(day)) ? findServerTime(cli, client) : Date.now()
}

/** Converts a time to come like parseWhen(). Durations count ahead from the time of the server. Throws Failure USAGE. */
export const parseFutureTime = async (cli: Cli, client: Client, flag: string, text: string): Promise<string> =>
  parseWhen(flag, text, { isAhead: true, now: await findReferenceTime(cli, client, { until: text }) })

/** Converts a date, yesterday or today (in UTC) to YYYY-MM-DD. Throws Failure USAGE. */
export function parseDayFlag(flag: string, text: string): string {
  const word = normalizeDate(text.trim().toLowerCase())
  const day = Object.hasOwn(days, word) ? parseWhen(flag, word) : word
  if (!isCalendarDate(day)) throw usage(`${flag} ${text}: not a date such as 2026-03-17 or yesterday`)
  return day
}

/**
 * Parses a period: a year, month, day, yesterday or today (in UTC), or two of them with `..` between. A duration is the first day of a period
 * without an end. Throws Failure USAGE.
 */
export function parsePeriodFlag(flag: string, text: string, now = Date.now()): Period {
  const days = text.split('..').map((day) => (/[a-z]\s*$/i.test(day) ? parseWhen(flag, day, { now }).slice(0, 10) : day.trim()))
  const period = parsePeriod(`${days.join('..')}${/^\s*\d+[.\d]*\s*[a-z]+\s*$/i.test(text) ? '..' : ''}`)
  if (!period) throw usage(`${flag} ${text}: not of the form 2026, 2026-03, 2026-03-17, yesterday, or two of them with .. between`)
  return period
}
