/** Figures of bench programs for the report. */
import { appendFileSync } from 'node:fs'

/** A measured figure. */
export interface Figure {
  /** Name of the measured quantity. */
  readonly measure: string
  readonly unit: string
  /** Figure of dms; the median if there are several rounds. */
  readonly value: number
  /** 95th percentile, if `value` is the median of single requests. */
  readonly p95?: number
  /** Figures of the compared programs in the same run. */
  readonly peers?: Readonly<Record<string, number>>
  /** `higher`: a rate; `lower`: a time or a size. */
  readonly better: 'higher' | 'lower'
}

/** Adds a figure to the report of `npm run bench`. Has no effect in a program that runs alone. */
export function report(figure: Figure): void {
  const { BENCH_FIGURES } = process.env
  if (BENCH_FIGURES) appendFileSync(BENCH_FIGURES, `${JSON.stringify(figure)}\n`)
}

/** Returns the ratio of dms to a peer: above 1, dms is faster or smaller. */
export function ratio({ value, better }: Figure, peer: number): number {
  return better === 'higher' ? value / peer : peer / value
}
