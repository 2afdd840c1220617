/** Output of a check: findings as they arrive, and a summary. */
import type { Cli } from '../runtime/context.ts'
import { type Column, fillMissingFields, pickFields, pluralize, rejectUnknownFields, wrapText } from './output.ts'
import { buildSummary } from './summary.ts'

export interface Findings<F extends object> {
  add(finding: F): void
  /** prints the summary with the fields of `more`, or `verdict` for people; sets the exit to PARTIAL if there are findings, unless it is set */
  finish(more?: Readonly<Record<string, unknown>>, verdict?: string): void
}

/** Starts the output. `sentence` formats a finding for people, `id` is the field of -o id. Throws Failure USAGE for an unknown field. */
export function startFindings<F extends object>(
  cli: Cli,
  command: string,
  columns: readonly Column<F>[],
  sentence: (finding: F) => string,
  id = 'document_id',
): Findings<F> {
  const { format, isHuman, fields } = cli.options
  rejectUnknownFields(fields, new Set([...columns.map(({ name }) => name), 'type']))
  const isStreamed = isHuman || format === 'jsonl' || format === 'tsv'
  const started = new Date()
  const kept: F[] = []
  let count = 0
  const rows = () => kept.map((finding) => fillMissingFields(finding, fields))
  return {
    add(finding) {
      if (!isStreamed) kept.push(finding)
      else if (isHuman) cli.write(`${wrapText(sentence(finding), cli.options.width)}\n`)
      else if (format === 'jsonl') cli.write(`${JSON.stringify(pickFields({ type: 'finding', ...finding }, fields))}\n`)
      else cli.print([fillMissingFields(finding, fields)], { columns, isContinuation: count > 0 })
      count++
    },
    finish(more = {}, verdict = undefined) {
      if (count > 0 && cli.exit === 'OK') cli.exit = 'PARTIAL'
      const summary = buildSummary(cli, command, { findings: count, ...more }, started)
      // --fields applies to findings, not to the summary.
      const usual = count > 0 ? pluralize(count, 'finding') : cli.exit === 'OK' ? '✓ all is well' : 'stopped before anything was found'
      if (isHuman) cli.write(`${verdict ?? usual}     ${summary.duration_seconds.toFixed(1)} s\n`)
      else if (format === 'json')
        cli.write(`${JSON.stringify({ ...summary, items: kept.map((finding) => pickFields(finding, fields)) }, null, 2)}\n`)
      else if (format === 'jsonl') cli.write(`${JSON.stringify(summary)}\n`)
      else if (format !== 'tsv' || count === 0) cli.print(rows(), { columns, id })
    },
  }
}
