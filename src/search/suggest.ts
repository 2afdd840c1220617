/** Completes queries with words of documents that the actor may see. */
import type { Actor } from '../actor.ts'
import type { App } from '../app.ts'
import { openYielder } from '../http/time-slices.ts'
import type { SearchQuery } from '../ports/search-engine.ts'
import { resolveFilter } from './query/filters.ts'
import { normalizeQuotes, parse, type Term, termFields } from './query/parser.ts'
import { parseQualifiers } from './query/qualifiers.ts'
import { tokenize } from './query/tokenizer.ts'
import { editDistance, maxTypos } from './query/typos.ts'

export interface Suggestion {
  /** the completed query */
  readonly text: string
  /** number of the newest matching documents that contain the word */
  readonly documents: number
}

/** Matching documents that are examined, and characters of each. */
const maxDocuments = 50
const maxCharacters = 20_000

const field = new RegExp(`^(?:${termFields.join('|')}):`, 'i')

/** Completes the last word of `text` with words of matching documents; if there are none, corrects its typos. Throws SERVICE_UNAVAILABLE. */
export async function suggest(app: App, actor: Actor, text: string, limit: number): Promise<Suggestion[]> {
  const typed = parseQualifiers(text)
  const term = parse(typed.text).at(-1)
  const prefix = term?.parts.at(-1)
  if (!term || !prefix?.prefix || term.parts.length > 1) return []
  const last = (/\S+$/.exec(text)?.[0] ?? '').replace(field, '')
  // No completion after a space or a sign, in a phrase, or in a filter.
  const isInPhrase = normalizeQuotes(text).split('"').length % 2 === 0
  if (!/[\p{L}\p{N}]/u.test(last) || isInPhrase || !typed.text.endsWith(last)) return []
  const filter = await resolveFilter(app, actor, {}, typed, [])
  if (!filter) return []
  const query = { text: typed.text, filter, fuzzy: false }
  const typos = maxTypos(prefix.text)
  let completions = await loadCompletions(app, query, term, (word) => word.startsWith(prefix.text))
  if (completions.length === 0 && typos > 0)
    completions = await loadCompletions(app, { ...query, fuzzy: true }, term, (word) => editDistance(prefix.text, word, typos) <= typos)
  const before = text.slice(0, text.length - last.length)
  const spelling = spellingOf(last)
  // Someone who types accents means them. Without accents, all spellings are meant.
  const isMeant = ({ text }: Suggestion): boolean => spelling !== prefix.text && text.startsWith(spelling)
  return completions
    .sort(
      (one, other) => Number(isMeant(other)) - Number(isMeant(one)) || other.documents - one.documents || (one.text < other.text ? -1 : 1),
    )
    .slice(0, limit)
    .map(({ text, documents }) => ({ text: `${before}${text}`, documents }))
}

/** Returns a word in lower case, without ligatures, soft hyphens and other invisible characters, except those that are part of a spelling in Persian. */
const spellingOf = (word: string): string =>
  word
    .replace(/[\u00ad\u200b\u2060\ufeff]/g, '')
    .normalize('NFKC')
    .toLowerCase()

/** Returns the words that `isCompletion` accepts in their most frequent spelling, with the number of documents. */
async function loadCompletions(
  app: App,
  query: Pick<SearchQuery, 'text' | 'filter' | 'fuzzy'>,
  { field: only }: Term,
  isCompletion: (word: string) => boolean,
): Promise<Suggestion[]> {
  const options = { ...query, highlight: false, offset: 0, limit: maxDocuments, maxResults: maxDocuments }
  const { hits } = await app.search.search(options)
  const ids = hits.map(({ document_id }) => document_id)
  if (ids.length === 0) return []
  const rows = await app.db
    .selectFrom('live_documents')
    .select((eb) => ['title', 'filename', eb.fn<string>('left', ['content', eb.val(maxCharacters)]).as('content')])
    .where('id', 'in', ids)
    .execute()
  const documentsWith = new Map<string, number>()
  const spellings = new Map<string, Map<string, number>>()
  const pause = openYielder()
  for (const { title, filename, content } of rows) {
    await pause()
    const words = new Set<string>()
    for (const text of only === null ? [title, content] : [{ title, filename, content }[only]]) {
      for (const token of tokenize(text)) {
        if (token.form !== 'word' || !isCompletion(token.text)) continue
        words.add(token.text)
        const spelling = spellingOf(text.slice(token.start, token.end))
        const counts = spellings.get(token.text) ?? new Map<string, number>()
        spellings.set(token.text, counts.set(spelling, (counts.get(spelling) ?? 0) + 1))
      }
    }
    for (const word of words) documentsWith.set(word, (documentsWith.get(word) ?? 0) + 1)
  }
  return [...documentsWith].map(([word, documents]) => {
    const [spelling = word] = [...(spellings.get(word) ?? [])].sort(([, one], [, other]) => other - one)[0] ?? []
    return { text: spelling, documents }
  })
}
