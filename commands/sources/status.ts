import { findSource } from '../../src/cli/arguments/sources.ts'
import { manual } from '../../src/cli/output/manual.ts'
import { type Column, columnsOf } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { mapSequential } from '../../src/cli/runtime/run-batch.ts'
import { addWatchFlag, runOrWatch, type WatchFlag } from '../../src/cli/runtime/watch.ts'
import type { SyncStatus } from '../../src/client/sources.ts'

type Row = SyncStatus & { name: string }

const columns: Column<Row>[] = [
  ...columnsOf(['name', 'state']),
  ...columnsOf(['processed', 'total'], { align: 'right' }),
  { name: 'current_file', title: 'CURRENT' },
  { name: 'started_at' },
  { name: 'error', title: 'LAST_ERROR', value: lastError },
  ...columnsOf(['created', 'updated', 'unchanged', 'skipped', 'failed', 'removed', 'bytes'], { show: 'wide', align: 'right' }),
  { name: 'finished_at', show: 'wide' },
  { name: 'job_id', title: 'JOB', show: 'wide' },
]

function lastError({ error, errors: [first] }: Row): string | undefined {
  return error?.message ?? (first && `${first.path}: ${first.message}`)
}

export const status = (cli: Cli) =>
  addWatchFlag(
    manual('status [source]', {
      summary: 'Show progress or result of syncs',
      examples: [
        ['sources status', 'all sources'],
        ['sources status invoices --json', 'with errors per file'],
        ['sources status invoices --watch 5s --fields state,processed,total', 'repeat until Ctrl-C'],
      ],
      exits: '0 shown · 6 no such source',
    }),
  ).action((nameOrId: string | undefined, { watch }: { watch?: WatchFlag }) =>
    runOrWatch(cli, watch, async () => {
      const client = await cli.client()
      return async () => {
        const sources = nameOrId === undefined ? await client.sources.list() : [await findSource(client, nameOrId)]
        const rows: Row[] = await mapSequential(sources, async ({ id, name }) => ({ name, ...(await client.sources.syncStatus(id)) }))
        if (nameOrId === undefined) cli.print(rows, { columns, id: 'job_id' })
        else cli.print(rows[0] as Row, { columns: columns.map(({ show: _, ...column }) => column), id: 'job_id' })
      }
    }),
  )
