/**
 * How much is lost by not ranking every match? A part of bench/search.ts: compares the first ten results with the ten of all matches that score
 * best. `overlap@10`: how many are equal. `nDCG@10`: the share of the score of the best ten that the shown ones have, weighted by position.
 */
import Table from 'cli-table3'
import type { App } from '../src/app.ts'
import { noFilter, type SearchFilter } from '../src/ports/search-engine.ts'

/** More documents than any of the databases has. */
const everything = 100_000_000

export interface Judged {
  readonly name: string
  readonly queries: readonly { readonly text: string; readonly fuzzy: boolean; readonly filter: Partial<SearchFilter> }[]
}

/** Prints the quality of the first ten results of these searches. */
export async function judge(app: App, kinds: readonly Judged[]): Promise<void> {
  const table = new Table({
    head: ['first ten, beside the ranking of all', 'overlap@10', 'worst', 'nDCG@10', 'worst', 'matches'],
    colAligns: ['left', 'right', 'right', 'right', 'right', 'right'],
  })
  const mean = (all: readonly number[]) => (all.reduce((sum, one) => sum + one, 0) / all.length).toFixed(2)
  for (const { name, queries } of kinds) {
    const overlaps: number[] = []
    const gains: number[] = []
    const matches: number[] = []
    for (const { text, fuzzy, filter } of queries) {
      const first = (limit: number, maxResults: number) =>
        app.search.search({ text, fuzzy, highlight: false, filter: { ...noFilter, ...filter }, offset: 0, limit, maxResults })
      const [all, limited] = [await first(everything, everything * 4), await first(10, app.config.limits.search_max_results)]
      const scores = all.hits
        .map(({ score }) => score)
        .sort((one, other) => other - one)
        .slice(0, 10)
      if (scores.length === 0) continue
      const least = scores.at(-1) ?? 0
      // What scores as the last of the best is as good as that.
      overlaps.push(limited.hits.filter(({ score }) => score >= least).length / scores.length)
      gains.push(discounted(limited.hits.map(({ score }) => score)) / discounted(scores) || 0)
      matches.push(all.total)
    }
    table.push([
      name,
      mean(overlaps),
      Math.min(...overlaps).toFixed(2),
      mean(gains),
      Math.min(...gains).toFixed(2),
      (matches.reduce((sum, one) => sum + one, 0) / matches.length).toFixed(0),
    ])
  }
  console.log(table.toString())
}

const discounted = (scores: readonly number[]): number => scores.reduce((sum, score, place) => sum + score / Math.log2(place + 2), 0)
