/** Output of a check: its findings, and a summary. */
import type { Cli } from '../runtime/context.ts'
import { type Column, pluralize, wrapText } from './output.ts'
import { openResultStream } from './result-stream.ts'

export interface Findings<F extends object> {
  add(finding: F): void
  /**
   * prints the summary with the fields of `more`; text output prints `verdict` instead. Sets the exit to PARTIAL if there are findings, unless it is
   * set
   */
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
  const results = openResultStream<F>(cli, command, { type: 'finding', columns, id })
  let count = 0
  return {
    add(finding) {
      count++
      if (cli.options.isSilent) cli.warn(sentence(finding))
      results.add(finding, wrapText(sentence(finding), cli.options.width))
    },
    finish(more = {}, verdict = undefined) {
      if (count > 0 && cli.exit === 'OK') cli.exit = 'PARTIAL'
      const result = count > 0 ? pluralize(count, 'finding') : cli.exit === 'OK' ? '✓ no findings' : 'stopped; no findings so far'
      results.finish({ findings: count, ...more }, verdict ?? result)
    },
  }
}
