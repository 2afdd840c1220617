import type { Command } from 'commander'
import type { Cli } from '../src/cli/context.ts'
import { usage } from '../src/cli/exit.ts'
import { manual } from '../src/cli/manual.ts'
import type { Column } from '../src/cli/output.ts'
import type { Client } from '../src/client/client.ts'
import type { Found } from '../src/search/search.ts'

type Hit = Found['results'][number]

interface Flags {
  mime: string[]
  label: string[]
  status: string[]
  source?: string
  owner?: string
  from?: string
  to?: string
  minConfidence?: string
  fuzzy?: boolean
  highlight: boolean
  limit: string
  facets?: boolean
}

const columns: Column<Hit>[] = [
  { name: 'score', align: 'right', value: ({ score }) => score.toFixed(2) },
  { name: 'document_id', title: 'ID' },
  { name: 'title' },
  { name: 'highlights', title: 'MATCH', value: ({ highlights }) => textOf(bestOf(highlights)) },
  { name: 'mime_type', title: 'TYPE', show: 'wide' },
  { name: 'created_at', title: 'CREATED', show: 'wide' },
]

const perPage = 100
const several = (value: string, before: string[]): string[] => [...before, value]

export const searchQuery = (cli: Cli): Command =>
  manual('query <text...>', {
    summary: 'Find documents by their words, best first.',
    examples: [
      ['search query invoice 2026', 'all words; the last one may go on'],
      [`search query '"annual report" -draft'`, 'a phrase, and a word that must not be there'],
      ['search query telecom --mime application/pdf --from 2026-01-01 -o id', 'ids, for a script'],
      ['search query recieved --fuzzy', 'tolerates typos'],
      ['search query invoice --facets', 'how many of which type and label'],
    ],
    exits: '0 searched, also when nothing was found · 2 bad filter · 4 not signed in · 69 search unreachable',
  })
    .option('--mime <type>', 'of this type only; again for more', several, [])
    .option('--label <label>', 'with this label (name or id) only; again for those with several', several, [])
    .option('--status <status>', 'pending, processing, completed or failed only; again for more', several, [])
    .option('--source <id>', 'from this source only')
    .option('--owner <user>', 'of this user (name or id) only; for admins')
    .option('--from <date>', 'created on this day or later')
    .option('--to <date>', 'created on this day or before')
    .option('--min-confidence <n>', 'OCR confidence from 0 to 1, at least')
    .option('--fuzzy', 'tolerate a typo in words of 5 letters, two from 9 letters on')
    .option('--no-highlight', 'without the places that match')
    .option('--limit <n>', 'at most so many (up to 1000)', '20')
    .option('--facets', 'count types and labels instead; with -o json the whole answer of the API')
    .action(async (text: string[], flags: Flags) => {
      const limit = Number(flags.limit)
      if (!Number.isInteger(limit) || limit < 1 || limit > 1000) throw usage(`--limit ${flags.limit}: a whole number from 1 to 1000`)
      const path = pathOf(text.join(' '), flags)
      const client = await cli.client()
      if (flags.facets) return printFacets(cli, await client.call<Found>('GET', path(1, Math.min(limit, perPage))))
      const { hits, total, isCapped } = await collect(client, path, limit)
      cli.print(hits, { columns, id: 'document_id' })
      if (total > hits.length && cli.options.isHuman)
        cli.note(`showing ${hits.length} of ${isCapped ? 'more than ' : ''}${total} (--limit)`)
    })

function pathOf(q: string, { mime, label, status, source, owner, from, to, minConfidence, fuzzy, highlight }: Flags) {
  const range = { ...(from === undefined ? {} : { from }), ...(to === undefined ? {} : { to }) }
  const filters = {
    mime_types: mime,
    labels: label,
    status,
    date_range: range,
    ...(source === undefined ? {} : { source_id: source }),
    ...(owner === undefined ? {} : { owner }),
    ...(minConfidence === undefined ? {} : { min_confidence: Number(minConfidence) }),
  }
  const shared = { q, filters: JSON.stringify(filters), fuzzy: String(fuzzy === true), highlight: String(highlight) }
  return (page: number, per_page: number) =>
    `/api/search?${new URLSearchParams({ ...shared, page: String(page), per_page: String(per_page) })}`
}

async function collect(client: Client, path: ReturnType<typeof pathOf>, limit: number) {
  const hits: Hit[] = []
  const size = Math.min(limit, perPage)
  for (let page = 1; ; page++) {
    const found = await client.call<Found>('GET', path(page, size))
    hits.push(...found.results)
    if (hits.length >= limit || !found.pagination.has_next)
      return { hits: hits.slice(0, limit), total: found.total, isCapped: found.total_capped }
  }
}

function printFacets(cli: Cli, found: Found): void {
  const { format } = cli.options
  const rows = Object.entries(found.facets).flatMap(([facet, counts]) =>
    Object.entries(counts).map(([name, count]) => ({ facet, name, count })),
  )
  if (format === 'json' || format === 'jsonl') cli.print(found, { columns: [] })
  else cli.print(rows, { columns: [{ name: 'facet' }, { name: 'name' }, { name: 'count', align: 'right' }], id: 'name' })
}

/** What says more than the title does, which has a column of its own. */
const bestOf = (highlights: Hit['highlights']): string =>
  (highlights.find(({ field }) => field !== 'title') ?? highlights[0])?.snippet ?? ''

const characters: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'" }

/** A snippet in one line, without its markup. */
const textOf = (snippet: string): string =>
  snippet
    .replace(/<\/?mark>/g, '')
    .replace(/&(amp|lt|gt|quot|#39);/g, (_, name: string) => characters[name]!)
    .replace(/\s+/g, ' ')
    .trim()
