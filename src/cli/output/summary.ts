/** Summary of a long command. */
import type { Cli } from '../runtime/context.ts'
import { exits } from '../runtime/exit.ts'

/** Builds the summary from the fields of `more`, the times and `cli.exit`, which must be set before. */
export const buildSummary = (cli: Pick<Cli, 'exit'>, command: string, more: object, started: Date, finished = new Date()) => ({
  type: 'summary',
  command,
  ...more,
  started_at: started.toISOString(),
  finished_at: finished.toISOString(),
  duration_seconds: (finished.getTime() - started.getTime()) / 1000,
  exit_code: exits[cli.exit][0],
})
