/** Parsers of search conditions and sort keys. */
import { usage } from '../runtime/exit.ts'

export interface Clause {
  field: string
  type: string
  value: string
}

export type Conditions = Record<'must' | 'should' | 'must_not', Clause[]>

const types = ['match', 'contains', 'exact']
const lists = { '+': 'must', '-': 'must_not', '': 'should' } as const

/** Parses `[+|-]FIELD[:TYPE]:TEXT`. TYPE is required if TEXT begins with a type and a colon. Throws Failure USAGE. */
export function parseClause(text: string): Clause & { list: keyof Conditions } {
  const [, sign = '', field, rest] = /^([+-]?)([^:]+):(.+)$/s.exec(text) ?? []
  if (field === undefined || rest === undefined) throw usage(`--field ${text}: not of the form [+|-]FIELD[:match|contains|exact]:TEXT`)
  const colon = rest.indexOf(':')
  const type = rest.slice(0, Math.max(0, colon))
  const isTyped = types.includes(type)
  return { list: lists[sign as keyof typeof lists], field, type: isTyped ? type : 'match', value: isTyped ? rest.slice(colon + 1) : rest }
}

/** Parses `FIELD[:asc|desc]`. Throws Failure USAGE. */
export function parseSortKey(text: string): { field: string; order?: string } {
  const [field = '', order, more] = text.split(':')
  if (field === '' || more !== undefined || (order !== undefined && order !== 'asc' && order !== 'desc'))
    throw usage(`--sort ${text}: not of the form FIELD[:asc|desc]`)
  return order === undefined ? { field } : { field, order }
}
