/** Dry runs of syncs. */
import type { Client } from '../../client/client.ts'
import type { Source } from '../../client/sources.ts'
import { parseCount } from '../arguments/flag-values.ts'
import { type Batch, type BatchItem, errorColumn, startBatch } from '../output/batch-output.ts'
import { type Column, columnsOf } from '../output/output.ts'
import type { Cli } from './context.ts'
import { type Exit, Failure } from './exit.ts'
import { describeSyncError } from './sync-source.ts'

interface PlanFlags {
  readonly full?: boolean
  readonly acceptChanges?: boolean
  readonly maxFiles?: string
}

const columns: Column<BatchItem>[] = [
  ...columnsOf(['action', 'source']),
  { name: 'key', title: 'PATH' },
  { name: 'bytes', align: 'right' },
  errorColumn,
]

type Plan = Awaited<ReturnType<Client['sources']['planSync']>>
export type PlannedProblem = Plan['problems'][number]
export type Planned = Plan['files'][number] | PlannedProblem

/** Returns a function that lists what the server would fetch, with a note if it lists the first files only. */
export function planOnServer(cli: Cli, client: Client, { full, acceptChanges, maxFiles = '10000' }: PlanFlags) {
  const max_files = parseCount('--max-files', maxFiles, { max: 10_000 })
  return async function* ({ id, name }: Source): AsyncGenerator<Planned> {
    const { files, problems, has_more, error, stop } = await client.sources.planSync(id, { full: full === true, max_files })
    yield* files
    yield* problems
    if (error) throw Object.assign(new Error(error.message), { code: error.code })
    if (stop && !acceptChanges) yield* reportStop(cli, name, stop)
    if (has_more) cli.note(`${name}: the first ${files.length} files that the server has found`)
  }
}

/** Prints a note if the source lists no files. Yields any other reason to stop as a problem of the source. */
export function* reportStop(cli: Cli, name: string, { code, message }: { code: string; message: string }): Generator<PlannedProblem> {
  if (code === 'SOURCE_EMPTY') cli.note(`${name}: ${message}`)
  else yield { path: name, code, message: `the sync would stop. ${message}` }
}

/** Prints what a sync of each source would do. */
export async function listPlan(cli: Cli, sources: readonly Source[], plan: (source: Source) => AsyncIterable<Planned>): Promise<void> {
  const batch: Batch = startBatch(cli, 'sources sync', { columns, isDryRun: true })
  const all: { exit: Exit }[] = []
  for (const source of sources) {
    try {
      if (source.status === 'disabled') throw new Failure('CONFLICT', 'The source is disabled.', { code: 'CONFLICT' })
      let exit: Exit = 'OK'
      for await (const planned of plan(source)) {
        const item = { key: planned.path, source: source.name }
        if ('action' in planned) batch.add({ ...item, action: planned.action, bytes: planned.size ?? 0 })
        else {
          batch.add({ ...item, action: 'failed', error: { code: planned.code, message: planned.message } })
          exit = 'PARTIAL'
        }
      }
      all.push({ exit })
    } catch (error) {
      if (cli.signal.aborted) throw error
      const { item, exit } = describeSyncError(source, error, 0)
      batch.add({ action: 'failed', key: item.key, source: source.name, error: item.error ?? undefined })
      all.push({ exit })
    }
  }
  cli.exit = combineExits(all)
  batch.finish()
}

/** Returns the exit code that all sources share, else PARTIAL. OK leaves the exit code to the batch. */
export function combineExits(all: readonly { exit: Exit }[]): Exit {
  const exits = new Set(all.map(({ exit }) => exit))
  const [only] = exits
  if (only && exits.size === 1) return only
  return exits.has('PARTIAL') ? 'PARTIAL' : 'OK'
}
