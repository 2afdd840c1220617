/** The result of a command that looks for what is wrong: findings as they come, and one summary at the end. */
import type { Cli } from './context.ts'
import { exits } from './exit.ts'
import { type Column, counted, wrapped } from './output.ts'

export interface Findings<F extends object> {
  add(finding: F): void
  /** sets the exit PARTIAL where something was found; `more` joins the summary */
  finish(more?: Readonly<Record<string, unknown>>): void
}

/** Starts; `sentence` is one finding as a person reads it. */
export function startFindings<F extends object>(
  cli: Cli,
  command: string,
  columns: readonly Column<F>[],
  sentence: (finding: F) => string,
): Findings<F> {
  const { format, isHuman } = cli.options
  const isStreamed = isHuman || format === 'jsonl' || format === 'tsv'
  const started = new Date()
  const kept: F[] = []
  let count = 0
  return {
    add(finding) {
      count++
      if (!isStreamed) kept.push(finding)
      else if (isHuman) cli.write(`${wrapped(sentence(finding), cli.options.width)}\n`)
      else if (format === 'jsonl') cli.print({ type: 'finding', ...finding }, { columns: [] })
      else cli.print([finding], { columns })
    },
    finish(more = {}) {
      if (count > 0) cli.exit = 'PARTIAL'
      const finished = new Date()
      const summary = {
        type: 'summary',
        command,
        findings: count,
        ...more,
        started_at: started.toISOString(),
        finished_at: finished.toISOString(),
        duration_seconds: (finished.getTime() - started.getTime()) / 1000,
        exit_code: exits[cli.exit][0],
      }
      if (isHuman) cli.write(`${count === 0 ? '✓ all is well' : counted(count, 'finding')}     ${summary.duration_seconds.toFixed(1)} s\n`)
      else if (format === 'json') cli.print({ ...summary, items: kept }, { columns: [] })
      else if (format === 'jsonl') cli.print(summary, { columns: [] })
      else if (!isStreamed) cli.print(kept, { columns })
    },
  }
}
