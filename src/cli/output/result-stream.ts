/** Results of a long command: printed as they arrive if the format allows it, else at the end, followed by a summary. */
import type { Cli } from '../runtime/context.ts'
import { exits } from '../runtime/exit.ts'
import { writeJsonObject } from './json-array.ts'
import { type Column, fillMissingFields, pickFields, rejectUnknownFields } from './output.ts'

/** Builds the summary from the fields of `more`, the times and `cli.exit`, which must be set before. */
export const buildSummary = (cli: Pick<Cli, 'exit'>, command: string, more: object, started: Date, finished = new Date()) => ({
  type: 'summary',
  command,
  failed: 0,
  error: null as { code: string; message: string } | null,
  ...more,
  started_at: started.toISOString(),
  finished_at: finished.toISOString(),
  duration_seconds: (finished.getTime() - started.getTime()) / 1000,
  exit_code: exits[cli.exit][0],
})

export interface StreamOptions<T> {
  /** field `type` of JSON lines */
  readonly type: string
  readonly columns: readonly Column<T>[]
  /** names that --fields accepts beside the columns */
  readonly optionalFields?: readonly string[]
  /** field that `-o id` prints; default `id` */
  readonly id?: string
  /** runs until it is stopped: -o json prints JSON lines */
  readonly isEndless?: boolean
  readonly now?: () => Date
}

/** Starts the output: rows for programs, sentences for people, nothing with --quiet. Throws Failure USAGE for an unknown field of --fields. */
export function openResultStream<T extends object>(cli: Cli, command: string, options: StreamOptions<T>) {
  const { type, columns, optionalFields = [], id, isEndless = false, now = () => new Date() } = options
  const { isHuman, isSilent, fields } = cli.options
  const format = isEndless && cli.options.format === 'json' ? 'jsonl' : cli.options.format
  rejectUnknownFields(fields, new Set([...columns.map(({ name }) => name), 'type', ...optionalFields]))
  const isStreamed = ['tsv', 'csv', 'id'].includes(format)
  const started = now()
  const rows: T[] = []
  let count = 0
  return {
    /** Adds a row, or `sentence` for people. */
    add(row: T, sentence?: string): void {
      if (isSilent) return
      if (isHuman && sentence !== undefined) cli.write(`${sentence}\n`)
      if (isHuman) return
      if (format === 'jsonl') cli.write(`${JSON.stringify(pickFields({ type, ...row }, fields))}\n`)
      else if (isStreamed) cli.print([fillMissingFields(row, fields)], { columns, id, isContinuation: count > 0 })
      else rows.push(row)
      count++
    },
    /** Prints the rows that are left and the summary with the fields of `more`. --fields does not apply to the summary. */
    finish(more: object, sentence: string): void {
      if (isSilent) return
      const summary = buildSummary(cli, command, more, started, now())
      if (isHuman) cli.write(`${sentence}     ${summary.duration_seconds.toFixed(1)} s\n`)
      else if (format === 'jsonl') cli.write(`${JSON.stringify(summary)}\n`)
      else if (format === 'json')
        writeJsonObject(
          cli.write,
          summary,
          'items',
          rows.values().map((row) => pickFields(row, fields)),
        )
      else if (count === 0 || !isStreamed)
        cli.print(
          rows.map((row) => fillMissingFields(row, fields)),
          { columns, id },
        )
    },
  }
}
