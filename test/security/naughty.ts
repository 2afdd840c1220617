/** Naughty strings in every parameter that takes text. */
import { addressOf, type Operation, type Schema } from '../support/operations.ts'

export interface Attempt {
  /** as `POST /api/labels name` */
  readonly place: string
  readonly method: string
  readonly address: string
  readonly json?: unknown
  readonly form?: { fields: Readonly<Record<string, string>>; field: string; filename: string }
}

/** Existing objects, by the first word of the path below /api, or by the name of a field. */
export type KnownIds = Readonly<Record<string, string>>

/** Returns the attempts of one route: each parameter that takes text, with each of the strings that `pick` returns for it. */
export function attemptsOn(operation: Operation, known: KnownIds, pick: () => readonly string[]): Attempt[] {
  const { name, method, query, body, form, inPath } = operation
  const params = Object.fromEntries(inPath.map((key) => [key, known[key] ?? known[operation.path.split('/')[2] ?? ''] ?? '']))
  const good = { method, address: addressOf(operation, params, {}), ...contentOf(operation, known) }
  const at = (place: string, make: (text: string) => Partial<Attempt>): Attempt[] =>
    pick().map((text) => ({ ...good, ...make(text), place: `${name} ${place}` }))
  const json = good.json as Record<string, unknown>
  const formed = good.form
  return [
    ...inPath.flatMap((key) => at(key, (text) => ({ address: addressOf(operation, { ...params, [key]: text }, {}) }))),
    ...Object.keys(query).flatMap((key) => at(key, (text) => ({ address: addressOf(operation, params, { [key]: text.toWellFormed() }) }))),
    ...textsIn(body).flatMap(([key, wrap]) => at(key, (text) => ({ json: { ...fresh(json), [key]: wrap(text) } }))),
    ...(formed
      ? [
          ...textsIn(form).flatMap(([key]) => at(key, (text) => ({ form: { ...formed, fields: { [key]: text } } }))),
          ...at('filename', (text) => ({ form: { ...formed, filename: text } })),
        ]
      : []),
  ]
}

let made = 0

/** Returns the content. Values that must be unique are new each time. */
function fresh(json: Record<string, unknown>): Record<string, unknown> {
  const word = `battery${++made}`
  const unique = { username: word, email: `${word}@example.org`, name: word }
  return { ...json, ...Object.fromEntries(Object.entries(unique).filter(([key]) => key in json)) }
}

function contentOf({ method, body, example, form }: Operation, known: KnownIds): Pick<Attempt, 'json' | 'form'> {
  if (form) return { form: { fields: {}, field: form.properties?.files ? 'files' : 'file', filename: 'a.txt' } }
  if (!body || method === 'GET') return {}
  const given = Array.isArray(example)
    ? { users: example }
    : Object.fromEntries(Object.entries(example as object).filter(([key]) => body.required?.includes(key)))
  return { json: { ...given, ...Object.fromEntries(Object.entries(known).filter(([key]) => key in given)) } }
}

type Wrap = (text: string) => unknown

/** Returns the top-level fields with text, and how to set them: as a value, in a list, or as key and value. */
function textsIn(schema: Schema | null): [name: string, wrap: Wrap][] {
  if (!schema) return []
  const own = Object.entries(schema.properties ?? {}).flatMap(([name, field]): [string, Wrap][] => {
    const kinds = [field, ...(field.anyOf ?? [])].flatMap(({ type = [] }) => type)
    if (field.format === 'binary' || name === 'files') return []
    if (kinds.includes('string')) return [[name, (text) => text]]
    if (kinds.includes('array')) return [[name, (text) => [text]]]
    return kinds.includes('object') ? [[name, (text) => ({ [text]: text })]] : []
  })
  return [...own, ...(schema.anyOf ?? []).flatMap(textsIn)]
}
