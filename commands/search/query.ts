import type { Command } from 'commander'
import { documentStatuses } from '../../src/cli/arguments/document-filters.ts'
import { collectValues, parseCount, SuggestingOption } from '../../src/cli/arguments/flag-values.ts'
import { findLabel } from '../../src/cli/arguments/labels.ts'
import { type Conditions, parseClause, parseSortKey } from '../../src/cli/arguments/search-conditions.ts'
import { findSourceId } from '../../src/cli/arguments/sources.ts'
import {
  addTimeSpanFlags,
  findReferenceTime,
  parsePeriodFlag,
  periodFlag,
  type TimeSpanFlags,
  timeSpanOf,
} from '../../src/cli/arguments/time-span.ts'
import { findOwnerId } from '../../src/cli/arguments/users.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Column } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'
import type { Client } from '../../src/client/client.ts'
import type { SearchAnswer } from '../../src/client/search.ts'

type Hit = SearchAnswer['results'][number]
type Filters = NonNullable<NonNullable<Parameters<Client['search']['query']>[1]>['filters']>

interface Flags extends TimeSpanFlags {
  field: string[]
  sort: string[]
  mime: string[]
  label: string[]
  status: string[]
  source?: string
  owner?: string
  date?: string
  minConfidence?: string
  fuzzy?: boolean
  relax?: boolean
  highlight: boolean
  limit: string
  facets?: boolean
  exitEmpty?: boolean
}

const columns: Column<Hit>[] = [
  { name: 'score', align: 'right', value: ({ score }) => score.toFixed(2) },
  { name: 'document_id', title: 'ID' },
  { name: 'title' },
  { name: 'highlights', title: 'MATCH', value: ({ highlights }) => snippetText(bestSnippet(highlights)) },
  { name: 'mime_type', title: 'TYPE', show: 'wide' },
  { name: 'document_date', title: 'DATE', show: 'wide' },
  { name: 'created_at', show: 'wide' },
]

const perPage = 100

export const query = (cli: Cli) =>
  addTimeSpanFlags(
    manual('query [text...]', {
      summary: 'Search documents, best match first',
      examples: [
        ['search query invoice 2026', 'all words; the last one may be incomplete'],
        ['search query \'"annual report" -draft\'', 'a phrase, and an excluded word'],
        ['search query telecom --mime application/pdf --since 2026-01-01 -o id', 'ids, for a script'],
        ['search query recieved --fuzzy', 'tolerates typos'],
        ['search query lease OR tenancy title:house type:pdf date:2026', 'either word, a word in the title, and filters'],
        ['search query invoice --facets', 'counts per type, label and year'],
        ['search query --field +title:invoice --field -status:exact:failed --sort size:desc', 'conditions on fields'],
        ['search query --field content:contains:4711-0 --field metadata.author:lovelace', 'either condition'],
      ],
      notes: [
        '--field [+|-]FIELD[:match|contains|exact]:TEXT: + is required, - is excluded. Of the conditions without a sign, one must match; with a + condition present they only affect the rank.',
        'Fields: any, title, content, filename, labels, mime_type, status, source_id, metadata.KEY. Together with --field or --sort, TEXT is plain words, without phrases, -words, OR and filters.',
      ],
      exits:
        '0 searched, also without matches (6 with --exit-empty) · 2 bad filter · 4 not signed in · 6 no such label, source or owner · 69 search unreachable',
    }),
    'created ',
  )
    .option('--field <condition>', 'condition on a field, see below; repeatable', collectValues, [])
    .addOption(
      new SuggestingOption(
        '--sort <field[:asc|desc]>',
        'score, document_date, created_at, updated_at, title, size or ocr_confidence; repeatable',
        ['score', 'document_date', 'created_at', 'updated_at', 'title', 'size', 'ocr_confidence'],
      )
        .argParser(collectValues)
        .default([]),
    )
    .option('--mime <type>', 'only this media type; repeatable', collectValues, [])
    .option('--label <label>', 'only with this label (name or id); repeatable', collectValues, [])
    .addOption(
      new SuggestingOption('--status <status>', 'only this status: pending, processing, completed or failed; repeatable', documentStatuses)
        .argParser(collectValues)
        .default([]),
    )
    .option('--source <source>', 'only from this source (name or id)')
    .option('--owner <user>', 'only of this user (name or id); for admins')
    .addOption(periodFlag())
    .option('--min-confidence <n>', 'minimum OCR confidence, 0 to 1')
    .option('--fuzzy', 'tolerate one typo in words of 5 letters or more, two from 9 letters')
    .option('--relax', 'if nothing has all words: tolerate typos, then one missing word')
    .option('--no-highlight', 'omit the matching text')
    .option('--limit <n>', 'maximum number of results (up to 1000)', '50')
    .option('--facets', 'count types, labels and years instead; -o json prints the complete answer')
    .option('--exit-empty', 'exit 6 if nothing matches')
    .action(async (text: string[], flags: Flags, command: Command) => {
      const limit = parseCount('--limit', flags.limit, { max: 1000 })
      if (text.join('').trim() === '' && flags.field.length === 0) throw usage('no search terms given', 'pass words, or --field CONDITION')
      const filters = parseFilters(flags)
      const isAdvanced = flags.field.length > 0 || flags.sort.length > 0
      if (isAdvanced) await refuseSyntax(text.join(' '))
      const search = isAdvanced ? byConditions(text.join(' '), flags, filters) : byWords(text.join(' '), flags, filters)
      const client = await cli.client()
      Object.assign(filters, timeFilters(flags, await findReferenceTime(cli, client, flags, flags.date)))
      for (const label of flags.label) filters.labels?.push((await findLabel(client, label)).id)
      if (flags.owner !== undefined) filters.owner = await findOwnerId(client, flags.owner)
      if (flags.source !== undefined) filters.source_id = await findSourceId(client, flags.source)
      if (flags.facets) {
        const answer = await search(client, 1, Math.min(limit, perPage))
        if (flags.exitEmpty && answer.total === 0) cli.exit = 'NOT_FOUND'
        return printFacets(cli, answer)
      }
      const { hits, total, isCapped, warnings } = await collectHits(client, search, limit)
      for (const warning of warnings) cli.warn(warning)
      cli.print(hits, { columns, id: 'document_id' })
      if (flags.exitEmpty && hits.length === 0) cli.exit = 'NOT_FOUND'
      // A script that has not chosen a limit would take the first 50 for all.
      if (total > hits.length && (cli.options.isHuman || command.getOptionValueSource('limit') === 'default'))
        cli.note(`showing ${hits.length} of ${isCapped ? 'more than ' : ''}${total} (--limit)`)
    })

type Search = (client: Client, page: number, per_page: number) => Promise<SearchAnswer>

function byWords(q: string, flags: Flags, filters: Filters): Search {
  const shared = { filters, fuzzy: flags.fuzzy === true, relax: flags.relax === true, highlight: flags.highlight }
  return (client, page, per_page) => client.search.query(q, { ...shared, page, per_page })
}

/** Throws Failure USAGE for query syntax in the text of an advanced search, which treats it as words. */
async function refuseSyntax(text: string): Promise<void> {
  const [{ parse }, { parseQualifiers }] = await Promise.all([
    import('../../src/search/query/parser.ts'),
    import('../../src/search/query/qualifiers.ts'),
  ])
  const hasSyntax = parse(text).some(({ quoted, negated, alternative, field }) => quoted || negated || alternative || field !== null)
  if (hasSyntax || parseQualifiers(text).isFiltered)
    throw usage(
      'with --field or --sort the text must be plain words',
      'use --field +any:exact:TEXT for a phrase, --field -any:WORD to exclude a word',
    )
}

/** Searches with conditions (advanced search). Throws Failure USAGE. */
function byConditions(text: string, flags: Flags, filters: Filters): Search {
  if (flags.relax) throw usage('--relax cannot be used with --field or --sort')
  if (flags.fuzzy) throw usage('--fuzzy cannot be used with --field or --sort')
  const query: Conditions = { must: [], should: [], must_not: [] }
  if (text !== '') query.must.push({ field: 'any', type: 'match', value: text })
  for (const { list, ...clause } of flags.field.map(parseClause)) query[list].push(clause)
  const shared = { query, filters, sort: flags.sort.map(parseSortKey), highlight: flags.highlight }
  return (client, page, per_page) => client.call('POST', '/api/search/advanced', { ...shared, page, per_page })
}

/** Returns the filters except labels, owner, source and times, which need the server. */
function parseFilters({ mime, status, minConfidence }: Flags): Filters {
  return {
    mime_types: mime,
    labels: [],
    // The server validates the status.
    status: status as NonNullable<Filters['status']>,
    min_confidence: minConfidence === undefined ? undefined : parseConfidence(minConfidence),
  }
}

function timeFilters({ date, ...span }: TimeSpanFlags & { date?: string }, now: number): Pick<Filters, 'date_range' | 'document_date'> {
  const period = date === undefined ? null : parsePeriodFlag('--date', date, now)
  return {
    date_range: timeSpanOf(span, now),
    ...(period ? { document_date: { from: period.from ?? undefined, to: period.to ?? undefined } } : {}),
  }
}

function parseConfidence(text: string): number {
  if (!/^(?:0?\.\d+|[01](?:\.0*)?)$/.test(text)) throw usage(`--min-confidence ${text}: not a number from 0 to 1, such as 0.8`)
  return Number(text)
}

async function collectHits(client: Client, search: Search, limit: number) {
  const hits: Hit[] = []
  const size = Math.min(limit, perPage)
  for (let page = 1; ; page++) {
    const answer = await search(client, page, size)
    hits.push(...answer.results)
    if (hits.length >= limit || !answer.pagination.has_next)
      return { hits: hits.slice(0, limit), total: answer.total, isCapped: answer.total_capped, warnings: answer.warnings }
  }
}

function printFacets(cli: Cli, answer: SearchAnswer): void {
  for (const warning of answer.warnings) cli.warn(warning)
  const rows = Object.entries(answer.facets).flatMap(([facet, counts]) =>
    Object.entries(counts).map(([name, count]) => ({ facet, name, count })),
  )
  if (cli.options.isJson) cli.print(answer, { columns: [] })
  else cli.print(rows, { columns: [{ name: 'facet' }, { name: 'name' }, { name: 'count', align: 'right' }], id: 'name' })
}

/** Prefers a snippet that is not from the title, which has its own column. */
const bestSnippet = (highlights: Hit['highlights']): string =>
  (highlights.find(({ field }) => field !== 'title') ?? highlights[0])?.snippet ?? ''

const entities: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'" }

/** Returns a snippet as one line of plain text. */
const snippetText = (snippet: string): string =>
  snippet
    .replace(/<\/?mark>/g, '')
    .replace(/&(amp|lt|gt|quot|#39);/g, (_, name: string) => entities[name]!)
    .replace(/\s+/g, ' ')
    .trim()
