/** Messages for invalid input, in place of the messages of the validation library. */
import type { z } from 'zod'

/** Names of types in messages. */
const typeNames: Readonly<Record<string, string>> = {
  string: 'a text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'a JSON object',
  record: 'a JSON object',
  null: 'null',
}

/** Descriptions of text formats. */
const formatNames: Readonly<Record<string, string>> = {
  uuid: 'an id (UUID)',
  guid: 'an id (UUID)',
  email: 'an e-mail address',
  url: 'a URL',
  datetime: 'an RFC 3339 date and time',
  date: 'a date such as 2026-11-20',
}

/** Returns the message of an issue. Schemas with a message of their own do not ask for it. */
export function describeIssue(issue: z.core.$ZodRawIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      if (issue.input === undefined) return 'required'
      return typeNames[issue.expected] ?? 'another type'
    case 'invalid_value':
      if (issue.input === undefined) return 'required'
      return issue.values.length === 1
        ? JSON.stringify(issue.values[0])
        : `one of ${issue.values.map((value) => JSON.stringify(value)).join(', ')}`
    case 'too_small':
      if (Number(issue.minimum) === 1 && issue.origin !== 'number') return 'must not be empty'
      return amount(issue.origin, issue.minimum, 'at least', 'or more')
    case 'too_big':
      return amount(issue.origin, issue.maximum, 'at most', 'or less')
    case 'invalid_format':
      return formatNames[issue.format] ?? 'has another form than expected'
    case 'unrecognized_keys':
      return `unknown ${issue.keys.length === 1 ? 'field' : 'fields'} ${issue.keys.map((key) => JSON.stringify(key)).join(', ')}`
    default:
      return issue.input === undefined ? 'required' : 'not a valid value'
  }
}

function amount(origin: string, limit: number | bigint, side: string, sideOfNumber: string): string {
  if (origin === 'string') return `${side} ${limit} characters`
  return origin === 'array' || origin === 'set' ? `${side} ${limit} entries` : `${limit} ${sideOfNumber}`
}

/** Returns the options of a schema with a message of its own, and `required` for a missing value. */
export const orRequired = (message: string) => ({ error: ({ input }: z.core.$ZodRawIssue) => (input === undefined ? 'required' : message) })

/** Returns the member of the value at a path; undefined if there is none. */
export function memberAt(value: unknown, path: readonly PropertyKey[]): unknown {
  let member = value
  for (const key of path) {
    if (typeof member !== 'object' || member === null || !Object.hasOwn(member, key)) return undefined
    member = (member as Record<PropertyKey, unknown>)[key]
  }
  return member
}

/** Returns the issues of the only branch of a union whose members an object has, with their paths in it. Returns other issues as they are. */
export function branchIssues(issue: z.core.$ZodIssue, value: unknown): z.core.$ZodIssue[] {
  if (issue.code !== 'invalid_union') return [issue]
  const input = memberAt(value, issue.path)
  if (typeof input !== 'object' || input === null) return [issue]
  const branches = issue.errors.filter((issues) => issues.every(({ path }) => path.length > 0 && memberAt(input, path) !== undefined))
  const [branch = []] = branches
  return branches.length === 1 && branch.length > 0 ? branch.map((inner) => ({ ...inner, path: [...issue.path, ...inner.path] })) : [issue]
}
