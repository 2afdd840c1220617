/** How a query could go on: words of documents that the asker may see. */
import type { Actor } from '../actor.ts'
import { isAdmin } from '../actor.ts'
import type { App } from '../app.ts'
import { noFilter, type SearchFilter } from '../ports/search.ts'
import { parse } from './query.ts'
import { distance, tolerated } from './typos.ts'
import { words } from './words.ts'

export interface Suggestion {
  /** the whole query */
  readonly text: string
  /** of the newest documents that match, so many have the word */
  readonly documents: number
}

/** Documents that are looked at, and characters of each. */
const maxDocuments = 50
const maxRead = 20_000

/** What the actor sees, and nothing else of anybody. */
export const seenBy = (actor: Actor): SearchFilter => ({ ...noFilter, ownerId: isAdmin(actor) ? null : actor.id })

/** The last word of `text`, which may be but begun, as documents have it that match the whole; where none does, with its typos mended. Throws SERVICE_UNAVAILABLE. */
export async function suggest(app: App, actor: Actor, text: string, limit: number): Promise<Suggestion[]> {
  const term = parse(text).at(-1)
  const begun = term?.parts.at(-1)
  if (!term || !begun?.prefix) return []
  const before = text.slice(0, text.length - (/\S+$/.exec(text)?.[0].length ?? 0))
  const isPartly = text.endsWith(' ') || term.parts.length > 1
  if (isPartly) return []
  const whole = await completions(app, actor, text, (word) => word.startsWith(begun.text))
  const typos = tolerated(begun.text)
  const found =
    whole.size > 0 || typos === 0 ? whole : await completions(app, actor, text, (word) => distance(begun.text, word, typos) <= typos, true)
  return [...found.values()]
    .sort((one, other) => other.documents - one.documents || (one.text < other.text ? -1 : 1))
    .slice(0, limit)
    .map(({ text, documents }) => ({ text: `${before}${text}`, documents }))
}

/** By the folded word: as it is mostly written, and in how many documents. */
async function completions(
  app: App,
  actor: Actor,
  text: string,
  isMeant: (word: string) => boolean,
  fuzzy = false,
): Promise<Map<string, Suggestion>> {
  const options = { highlight: false, filter: seenBy(actor), offset: 0, limit: maxDocuments, maxResults: maxDocuments }
  const { hits } = await app.search.search({ ...options, text, fuzzy })
  const ids = hits.map(({ document_id }) => document_id)
  if (ids.length === 0) return new Map()
  const rows = await app.db
    .selectFrom('documents')
    .select((eb) => ['title', eb.fn<string>('left', ['content', eb.val(maxRead)]).as('content')])
    .where('id', 'in', ids)
    .execute()
  const documentsWith = new Map<string, number>()
  const written = new Map<string, Map<string, number>>()
  for (const { title, content } of rows) {
    const seen = new Set<string>()
    for (const field of [title, content]) {
      for (const word of words(field)) {
        if (word.form !== 'word' || !isMeant(word.text)) continue
        seen.add(word.text)
        const form = field.slice(word.start, word.end).toLowerCase()
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
