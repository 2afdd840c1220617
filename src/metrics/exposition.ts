/** Text exposition format of Prometheus. */

export type Labels = Readonly<Record<string, string | number>>

export interface Sample {
  labels?: Labels
  value: number
  /** Series of a histogram: `_bucket`, `_sum` or `_count`. */
  suffix?: string
}

/** Samples of one metric name. */
export interface Family {
  name: string
  type: 'counter' | 'gauge' | 'histogram'
  help: string
  samples: readonly Sample[]
}

export const contentType = 'text/plain; version=0.0.4; charset=utf-8'

/** Returns a family from its parts. */
export const family = (name: string, type: Family['type'], help: string, samples: readonly Sample[]): Family => ({
  name,
  type,
  help,
  samples,
})

/** Returns a gauge with one sample. */
export const gauge = (name: string, help: string, value: number): Family => family(name, 'gauge', help, [{ value }])

export interface Histogram {
  /** Adds a value, or `times` values of the same bucket with the sum `total`. */
  observe(value: number, times?: number, total?: number): void
  /** Number of observations. */
  readonly count: number
  samples(labels?: Labels): Sample[]
}

/** Opens an empty histogram. `bounds` are the upper bounds of its buckets. */
export function openHistogram(bounds: readonly number[]): Histogram {
  const buckets: number[] = Array(bounds.length + 1).fill(0)
  let sum = 0
  let count = 0
  return {
    observe(value, times = 1, total = value) {
      const index = bounds.findIndex((bound) => value <= bound)
      const bucket = index === -1 ? bounds.length : index
      buckets[bucket] = (buckets[bucket] ?? 0) + times
      sum += total
      count += times
    },
    get count() {
      return count
    },
    samples(labels = {}) {
      let cumulated = 0
      const steps = buckets.map((value, index) => {
        cumulated += value
        return { suffix: '_bucket', labels: { ...labels, le: bounds[index] ?? '+Inf' }, value: cumulated }
      })
      return [...steps, { suffix: '_sum', labels, value: sum }, { suffix: '_count', labels, value: count }]
    },
  }
}

/** Returns the text of all families that have samples. */
export const render = (families: readonly Family[]): string =>
  families
    .filter(({ samples }) => samples.length > 0)
    .map(familyText)
    .join('')

const familyText = ({ name, type, help, samples }: Family): string =>
  `# HELP ${name} ${help.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')}\n# TYPE ${name} ${type}\n${samples
    .map(({ labels = {}, value, suffix = '' }) => `${name}${suffix}${labelText(labels)} ${numberText(value)}\n`)
    .join('')}`

function labelText(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escapeLabel(String(value))}"`)
  return pairs.length > 0 ? `{${pairs.join(',')}}` : ''
}

const escapeLabel = (value: string): string => value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')

const numberText = (value: number): string => String(value).replace('Infinity', 'Inf').replace(/^I/, '+I')
