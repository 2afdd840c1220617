/** Text exposition format of Prometheus. */

export type Labels = Readonly<Record<string, string | number>>

export interface Sample {
  labels?: Labels
  value: number
  /** series of a histogram: `_bucket`, `_sum`, `_count` */
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

/** Returns a gauge with one sample. */
export const gauge = (name: string, help: string, value: number): Family => ({ name, type: 'gauge', help, samples: [{ value }] })

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

function numberText(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return '+Inf'
  if (value === Number.NEGATIVE_INFINITY) return '-Inf'
  return String(value)
}
