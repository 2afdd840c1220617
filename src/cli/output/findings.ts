/** The result of a command that looks for what is wrong: findings as they come, and one summary at the end. */
import type { Cli } from '../runtime/context.ts'
import { type Column, fillMissingFields, pickFields, pluralize, rejectUnknownFields, wrapText } from './output.ts'
import { buildSummary } from './summary.ts'

export interface Findings<F extends object> {
  add(finding: F): void
  /** sets the exit PARTIAL where something was found, unless the command has set one; `more` joins the summary, `verdict` is for people */
  finish(more?: Readonly<Record<string, unknown>>, verdict?: string): void
}

/** Starts; `sentence` is one finding as a person reads it, `id` the field that -o id prints. Throws Failure USAGE for a field that findings do not have. */
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
      // --fields is about the findings; the summary is always whole.
      const usual = count > 0 ? pluralize(count, 'finding') : cli.exit === 'OK' ? '✓ all is well' : 'stopped before anything was found'
      if (isHuman) cli.write(`${verdict ?? usual}     ${summary.duration_seconds.toFixed(1)} s\n`)
      else if (format === 'json')
        cli.write(`${JSON.stringify({ ...summary, items: kept.map((finding) => pickFields(finding, fields)) }, null, 2)}\n`)
      else if (format === 'jsonl') cli.write(`${JSON.stringify(summary)}\n`)
      else if (format !== 'tsv' || count === 0) cli.print(rows(), { columns, id })
    },
  }
}
