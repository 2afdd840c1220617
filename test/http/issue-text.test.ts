import { expect, test } from 'vitest'
import { z } from 'zod'
import { listOf, parseInput } from '../../src/http/input.ts'

const Thing = z.strictObject({
  name: z.string().min(1).max(3),
  size: z.number().int().min(2).max(9).optional(),
  kind: z.enum(['a', 'b']).optional(),
  only: z.literal('x').optional(),
  id: z.uuid().optional(),
  at: z.iso.datetime().optional(),
  mail: z.email('an address').optional(),
  tags: listOf(z.string().min(2), 2, 1).optional(),
  either: z.union([z.string(), z.number()]).optional(),
  code: z.string().regex(/^x/).optional(),
})

/** Returns the messages of VALIDATION_ERROR by path. */
function problemsOf(value: object): Record<string, string> {
  try {
    parseInput(Thing, value)
  } catch (error) {
    const { issues } = (error as { details: { issues: { path: string; message: string }[] } }).details
    return Object.fromEntries(issues.map(({ path, message }) => [path, message]))
  }
  return {}
}

test.each([
  [{}, { name: 'required' }],
  [{ name: '' }, { name: 'must not be empty' }],
  [{ name: 5 }, { name: 'a text' }],
  [
    { name: 'long', size: 1 },
    { name: 'at most 3 characters', size: '2 or more' },
  ],
  [{ name: 'a', size: 10 }, { size: '9 or less' }],
  [{ name: 'a', size: 2.5 }, { size: 'a whole number' }],
  [
    { name: 'a', kind: 'c', only: 'y' },
    { kind: 'one of "a", "b"', only: '"x"' },
  ],
  [
    { name: 'a', id: 'c', at: 'now', mail: 'x' },
    { id: 'an id (UUID)', at: 'an RFC 3339 date and time', mail: 'an address' },
  ],
  [{ name: 'a', tags: ['x'] }, { 'tags.0': 'at least 2 characters' }],
  [{ name: 'a', tags: ['xx', 'yy', 'zz'] }, { tags: 'at most 2 entries' }],
  [
    { name: 'a', either: true, code: 'y' },
    { either: 'not a valid value', code: 'has another form than expected' },
  ],
  [{ name: 'a', other: 1 }, { '': 'unknown field "other"' }],
])('VALIDATION_ERROR for %j says what is expected, in plain words', (value, problems) => {
  expect(problemsOf(value)).toEqual(problems)
})
