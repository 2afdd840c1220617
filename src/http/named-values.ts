/** Values by name of query strings and forms, where a name may be given more than once. */
import { markUnstorable } from './json/parse.ts'

/** The values of a name that is given more than once, joined by commas. Only lists accept them. */
export class RepeatedValue {
  readonly joined: string

  constructor(joined: string) {
    this.joined = joined
  }

  toJSON(): string {
    return this.joined
  }
}

/** Returns values by name. Marks unstorable values, and wraps the values of a repeated name. */
export function collectValues(pairs: Iterable<readonly [name: string, value: string]>): Record<string, unknown> {
  const texts = new Map<string, string>()
  const repeated = new Set<string>()
  for (const [name, value] of pairs) {
    const earlier = texts.get(name)
    if (earlier !== undefined) repeated.add(name)
    texts.set(name, earlier === undefined ? value : `${earlier},${value}`)
  }
  const entries = Array.from(texts, ([name, text]) => {
    const value = markUnstorable(text)
    return [name, value === text && repeated.has(name) ? new RepeatedValue(text) : value] as const
  })
  return Object.fromEntries(entries)
}
