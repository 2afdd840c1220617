/** Checks whether documents are found by their words. */
import { setTimeout as sleep } from 'node:timers/promises'
import { type Client, encode } from '../../src/client/client.ts'
import { forEachConcurrently } from './read-folder.ts'
import { searchable } from './words.ts'

export interface Expected {
  readonly documentId: string
  readonly words: readonly string[]
}

export interface Missed {
  readonly documentId: string
  readonly word: string
}

/** Maximum time until the index is up to date; two seconds on an idle machine. */
const indexTimeout = 10_000
const searchesAtOnce = 4
const wordsOfSample = 12

/** Returns the words that must find a document: all words of its ground truth that were read, or a sample of its text if there is no ground truth. */
export function expectedWords(content: string, truth: string | null): string[] {
  const read = searchable(content)
  if (truth !== null) return [...searchable(truth)].filter((word) => read.has(word))
  const all = [...read]
  const step = Math.max(1, Math.floor(all.length / wordsOfSample))
  return all.filter((_, index) => index % step === 0).slice(-wordsOfSample)
}

/** Searches for each word once. Returns the pairs of word and document that were not found. */
export async function missedWords(client: Client, expected: readonly Expected[]): Promise<Missed[]> {
  const documents = new Map<string, Set<string>>()
  for (const { documentId, words } of expected)
    for (const word of words) documents.set(word, (documents.get(word) ?? new Set()).add(documentId))
  const missed: Missed[] = []
  await forEachConcurrently(searchesAtOnce, [...documents], async ([word, wanted]) => {
    const end = performance.now() + indexTimeout
    for (;;) {
      const found = await documentsWith(client, word)
      const absent = [...wanted].filter((id) => !found.has(id))
      if (absent.length === 0) return
      if (performance.now() > end) {
        missed.push(...absent.map((documentId) => ({ documentId, word })))
        return
      }
      await sleep(500)
    }
  })
  return missed
}

async function documentsWith(client: Client, word: string): Promise<Set<string>> {
  const found = new Set<string>()
  for (let page = 1, more = true; more; page++) {
    const query = encode({ q: word, per_page: 100, page, highlight: false })
    const answer = await client.call<{ results: { document_id: string }[]; pagination: { has_next: boolean } }>(
      'GET',
      `/api/search?${query}`,
    )
    for (const { document_id } of answer.results) found.add(document_id)
    more = answer.pagination.has_next
  }
  return found
}

const wordsOfQuery = 3
const firstResults = 3
/** minimum length; shorter words are often articles */
const leastLetters = 4

/** Returns the rarest words of a page; among equally rare words, the longest first. Joins words that a hyphen divides at a line end. */
export function rareWords(truth: string, truths: readonly string[]): string[] {
  const sets = truths.map(wholeWords)
  const frequency = (word: string) => sets.filter((set) => set.has(word)).length
  const ranked = [...wholeWords(truth)].map((word) => ({ word, count: frequency(word) }))
  ranked.sort((a, b) => a.count - b.count || b.word.length - a.word.length || (a.word < b.word ? -1 : 1))
  return ranked.slice(0, wordsOfQuery).map(({ word }) => word)
}

const wholeWords = (text: string): Set<string> =>
  new Set([...searchable(text.replace(/(\p{L})[-\u00ad\u00ac]\s*\n\s*(?=\p{Ll})/gu, '$1'))].filter((word) => word.length >= leastLetters))

export interface ExpectedFirst extends Expected {
  /** ids of the documents with an equal text */
  readonly sameText: ReadonlySet<string>
}

/** Returns the documents that are not among the first results for their words, nor a document with an equal text. */
export async function notFoundFirst(client: Client, expected: readonly ExpectedFirst[]): Promise<Missed[]> {
  const missed: Missed[] = []
  await forEachConcurrently(searchesAtOnce, expected, async ({ documentId, words, sameText }) => {
    const query = encode({ q: words.join(' '), per_page: firstResults, highlight: false, relax: true })
    const { results } = await client.call<{ results: { document_id: string }[] }>('GET', `/api/search?${query}`)
    if (!results.some(({ document_id }) => sameText.has(document_id))) missed.push({ documentId, word: words.join(' ') })
  })
  return missed
}
