/** The results as Markdown. */
import { type Figure, ratio } from './figure.ts'
import { programs } from './programs.ts'

/** Results of one program. */
export interface Run {
  readonly options: string
  /** YYYY-MM-DD */
  readonly measuredAt: string
  readonly commit: string
  readonly machine: string
  /** Load average of the machine when the program started. */
  readonly load: number
  readonly seconds: number
  readonly figures: readonly Figure[]
}

/** Results by the name of the program. */
export type Results = Record<string, Run>

/** Replaces the text between two comments of a page; appends it to a page without them. */
export function replaceGenerated(page: string, program: string, content: string): string {
  const [begin, end] = [`<!-- written by ${program} -->`, `<!-- end of ${program} -->`]
  const block = `${begin}\n\n${content}\n${end}\n`
  const [from, to] = [page.indexOf(begin), page.indexOf(end)]
  if (from < 0 || to < from) return `${page.trimEnd()}\n\n${block}`.trimStart()
  return page.slice(0, from) + block + page.slice(to + end.length).replace(/^\n/, '')
}

/** Returns the results as Markdown: the worst ratios, then a section for each program. */
export function resultsPage(results: Results): string {
  const sections = programs.flatMap(({ name, title, note }) => {
    const run = results[name]
    return run ? [section(name, title, note, run)] : []
  })
  return [worstRatios(results), ...sections].join('\n')
}

function section(name: string, title: string, note: string, run: Run): string {
  const command = ['npm run bench -- --only', name].join(' ')
  const options = run.options === '' ? '' : `, options \`${run.options}\``
  const [figures, peers] = [run.figures, [...new Set(run.figures.flatMap((figure) => Object.keys(figure.peers ?? {})))]]
  const hasP95 = figures.some(({ p95 }) => p95 !== undefined)
  const head = ['measure', 'unit', 'dms', ...(hasP95 ? ['p95'] : []), ...peers.flatMap((peer) => [peer, 'ratio'])]
  const rows = figures.map((figure) => [
    figure.measure,
    figure.unit,
    digits(figure.value),
    ...(hasP95 ? [digits(figure.p95)] : []),
    ...peers.flatMap((peer) => {
      const value = figure.peers?.[peer]
      return value === undefined ? ['', ''] : [digits(value), ratio(figure, value).toFixed(2)]
    }),
  ])
  const lines = [head, head.map((_, column) => (column < 2 ? '---' : '---:')), ...rows].map((cells) => `| ${cells.join(' | ')} |`)
  return `### ${title}

${note} \`${command}\`${options}; ${run.machine}; commit ${run.commit}, ${run.measuredAt}, load ${run.load.toFixed(1)} before, ${run.seconds} s.

![${title}: dms beside its peers](benchmarks/${name}.svg)

${lines.join('\n')}
`
}

/** Returns the three measures with the worst ratios to a peer. */
function worstRatios(results: Results): string {
  const all = Object.entries(results).flatMap(([name, run]) =>
    run.figures.flatMap((figure) =>
      Object.entries(figure.peers ?? {}).map(([peer, value]) => ({ name, figure, peer, times: ratio(figure, value) })),
    ),
  )
  const worst = all.sort((one, other) => one.times - other.times).slice(0, 3)
  const lines = worst.map(
    ({ name, figure, peer, times }) => `- ${times.toFixed(2)} of ${peer}: ${figure.measure}, ${figure.unit} (${name})`,
  )
  return `Ratios are of one run on one machine. Above 1, dms is faster or smaller than the peer. The three worst:\n\n${lines.join('\n')}\n`
}

/** Formats a number with three significant digits. */
function digits(value: number | undefined): string {
  if (value === undefined || Number.isNaN(value)) return ''
  return value >= 100 ? Math.round(value).toLocaleString('en') : String(Number(value.toPrecision(3)))
}
