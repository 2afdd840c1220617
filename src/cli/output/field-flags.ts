/** Maps fields in validation errors of the API to the flags of a command, or to its arguments of the form NAME=VALUE. */
import type { Command } from 'commander'
import { validationIssues } from './error-lines.ts'

/** Names of flags by field, if the two differ. */
const flagsOf: Readonly<Record<string, readonly string[]>> = {
  date_from: ['from', 'since'],
  date_to: ['until', 'to'],
  from: ['since'],
  to: ['until'],
  expires_at: ['expires'],
  source_id: ['source'],
  labels: ['label', 'add-label'],
  label_ids: ['label'],
  mime_types: ['mime'],
  must: ['field'],
  should: ['field'],
  must_not: ['field'],
  scopes: ['scope'],
  color: ['colour'],
  url: ['address'],
  sync_interval: ['interval'],
  file_patterns: ['pattern'],
  metadata: ['set'],
}

/** Maximum length of a value in a message. */
const maxValueLength = 60

/** Adds the flag or argument to each validation issue of the error. If all issues have one, they become the message. */
export function addFlagNames(error: unknown, command: Command): unknown {
  const issues = validationIssues(error).map(({ path, message }) => ({ path, message, ...flagFor(command, path) }))
  if (!(error instanceof Error) || issues.length === 0) return error
  const { details } = error as { details?: object }
  const isAll = issues.every(({ flag }) => flag !== undefined)
  const message = issues.map(({ flag, message }) => `${flag}: ${message}`).join('; ')
  return Object.assign(error, { details: { ...details, issues } }, isAll ? { message } : {})
}

function flagFor(command: Command, path: unknown): { flag?: string } {
  const parts = String(path).split('.')
  // The last of several is the one that was sent.
  const pair = command.args.findLast((argument) => argument.startsWith(`${path}=`))
  if (pair !== undefined) return { flag: pair.length <= maxValueLength ? pair : String(path) }
  for (const [at, part] of parts.entries()) {
    for (const name of [part.replaceAll('_', '-'), ...(Object.hasOwn(flagsOf, part) ? (flagsOf[part] ?? []) : [])]) {
      const option = command.options.find(({ long }) => long === `--${name}`)
      const key = option?.attributeName()
      if (key === undefined || command.getOptionValueSource(key) !== 'cli') continue
      const values: unknown = command.getOptionValue(key)
      const value = Array.isArray(values) ? values[values.length === 1 ? 0 : flagIndex(part, parts[at + 1])] : values
      return { flag: typeof value === 'string' && value.length <= maxValueLength ? `--${name} ${value}` : `--${name}` }
    }
  }
  return {}
}

/** The index of a condition is not that of its flag, because conditions are grouped by sign. */
const flagIndex = (part: string, index: string | undefined): number =>
  flagsOf[part]?.[0] === 'field' ? Number.NaN : Number(index ?? Number.NaN)
