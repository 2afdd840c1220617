/** How a query could go on: words of documents that the asker may see. */
import type { Actor } from '../actor.ts'
import type { App } from '../app.ts'
import type { SearchQuery } from '../ports/search-engine.ts'
import { resolveFilter } from './query/filters.ts'
import { normalizeQuotes, parse, type Term, termFields } from './query/parser.ts'
import { parseQualifiers } from './query/qualifiers.ts'
import { tokenize } from './query/tokenizer.ts'
import { editDistance, maxTypos } from './query/typos.ts'

export interface Suggestion {
  /** the whole query */
  readonly text: string
  /** of the newest documents that match, so many have the word */
  readonly documents: number
}

/** Documents that are looked at, and characters of each. */
const maxDocuments = 50
const maxRead = 20_000

const field = new RegExp(`^(?:${termFields.join('|')}):`, 'i')

/** The last word of `text`, which may be but begun, as documents have it that match the whole; where none does, with its typos mended. Throws SERVICE_UNAVAILABLE. */
export async function suggest(app: App, actor: Actor, text: string, limit: number): Promise<Suggestion[]> {
  const typed = parseQualifiers(text)
  const term = parse(typed.text).at(-1)
  const begun = term?.parts.at(-1)
  if (!term || !begun?.prefix || term.parts.length > 1) return []
  const last = (/\S+$/.exec(text)?.[0] ?? '').replace(field, '')
  // Behind a space nothing is begun, and what ends in a filter ends in no word.
  const isInPhrase = normalizeQuotes(text).split('"').length % 2 === 0
  if (last === '' || isInPhrase || !typed.text.endsWith(last)) return []
  const filter = await resolveFilter(app, actor, {}, typed, [])
  if (!filter) return []
  const asked = { text: typed.text, filter }
  const whole = await completions(app, asked, term, (word) => word.startsWith(begun.text))
  const typos = maxTypos(begun.text)
  const found =
    whole.size > 0 || typos === 0
      ? whole
      : await completions(app, asked, term, (word) => editDistance(begun.text, word, typos) <= typos, true)
  const before = text.slice(0, text.length - last.length)
  return [...found.values()]
    .sort((one, other) => other.documents - one.documents || (one.text < other.text ? -1 : 1))
    .slice(0, limit)
    .map(({ text, documents }) => ({ text: `${before}${text}`, documents }))
}

/** By the folded word: as it is mostly written, and in how many documents. */
async function completions(
  app: App,
  asked: Pick<SearchQuery, 'text' | 'filter'>,
  { field: only }: Term,
  isMeant: (word: string) => boolean,
  fuzzy = false,
): Promise<Map<string, Suggestion>> {
  const options = { ...asked, fuzzy, highlight: false, offset: 0, limit: maxDocuments, maxResults: maxDocuments }
  const { hits } = await app.search.search(options)
  const ids = hits.map(({ document_id }) => document_id)
  if (ids.length === 0) return new Map()
  const rows = await app.db
    .selectFrom('documents')
    .select((eb) => ['title', 'filename', eb.fn<string>('left', ['content', eb.val(maxRead)]).as('content')])
    .where('id', 'in', ids)
    .execute()
  const documentsWith = new Map<string, number>()
  const written = new Map<string, Map<string, number>>()
  for (const { title, filename, content } of rows) {
    const seen = new Set<string>()
    for (const text of only === null ? [title, content] : [{ title, filename, content }[only]]) {
      for (const word of tokenize(text)) {
        if (word.form !== 'word' || !isMeant(word.text)) continue
        seen.add(word.text)
        const form = text.slice(word.start, word.end).toLowerCase()
        const forms = written.get(word.text) ?? new Map<string, number>()
        written.set(word.text, forms.set(form, (forms.get(form) ?? 0) + 1))
      }
    }
    for (const word of seen) documentsWith.set(word, (documentsWith.get(word) ?? 0) + 1)
  }
  return new Map(
    [...documentsWith].map(([word, documents]) => {
      const [form = word] = [...(written.get(word) ?? [])].sort(([, one], [, other]) => other - one)[0] ?? []
      return [word, { text: form, documents }]
    }),
  )
}
