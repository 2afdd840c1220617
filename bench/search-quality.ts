/**
 * How much is lost by not ranking every match? A part of bench/search.ts: the first ten of each search beside the ten of all its matches that score best.
 * `overlap@10`: how many of them are the same. `nDCG@10`: how much of the score that the best ten have those have that are shown, the first counting most.
 */
import Table from 'cli-table3'
import type { App } from '../src/app.ts'
import { noFilter, type SearchFilter } from '../src/ports/search-engine.ts'

/** More than any of the databases holds. */
const everything = 100_000_000

export interface Judged {
  readonly name: string
  readonly queries: readonly { readonly text: string; readonly fuzzy: boolean; readonly filter: Partial<SearchFilter> }[]
}

/** Prints how good the first ten of these searches are. */
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
      const [all, shown] = [await first(everything, everything * 4), await first(10, app.config.limits.search_max_results)]
      const scores = all.hits
        .map(({ score }) => score)
        .sort((one, other) => other - one)
        .slice(0, 10)
      if (scores.length === 0) continue
      const least = scores.at(-1) ?? 0
      // What scores as the last of the best is as good as that.
      overlaps.push(shown.hits.filter(({ score }) => score >= least).length / scores.length)
      gains.push(discounted(shown.hits.map(({ score }) => score)) / discounted(scores) || 0)
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
