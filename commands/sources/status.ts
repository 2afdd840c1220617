import type { Command } from 'commander'
import { findSource } from '../../src/cli/arguments/sources.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Column } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { mapSequential } from '../../src/cli/runtime/run-batch.ts'
import { addWatchFlag, runOrWatch, type WatchFlag } from '../../src/cli/runtime/watch.ts'
import type { SyncStatus } from '../../src/client/sources.ts'

interface Row extends SyncStatus {
  name: string
}

const columns: Column<Row>[] = [
  { name: 'name' },
  { name: 'state' },
  { name: 'processed', align: 'right' },
  { name: 'total', align: 'right' },
  { name: 'current_file', title: 'CURRENT' },
  { name: 'started_at', title: 'STARTED' },
  {
    name: 'error',
    title: 'LAST_ERROR',
    value: ({ error, errors: [first] }) => error?.message ?? (first && `${first.path}: ${first.message}`),
  },
  { name: 'created', show: 'wide', align: 'right' },
  { name: 'updated', show: 'wide', align: 'right' },
  { name: 'unchanged', show: 'wide', align: 'right' },
  { name: 'skipped', show: 'wide', align: 'right' },
  { name: 'failed', show: 'wide', align: 'right' },
  { name: 'removed', show: 'wide', align: 'right' },
  { name: 'bytes', show: 'wide', align: 'right' },
  { name: 'finished_at', title: 'FINISHED', show: 'wide' },
  { name: 'job_id', title: 'JOB', show: 'wide' },
]

export const sourcesStatus = (cli: Cli): Command =>
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
  ).action((given: string | undefined, { watch }: { watch?: WatchFlag }) =>
    runOrWatch(cli, watch, async () => {
      const client = await cli.client()
      return async () => {
        const sources = given === undefined ? await client.sources.list() : [await findSource(client, given)]
        const rows = await mapSequential(
          sources,
          async ({ id, name }): Promise<Row> => ({ name, ...(await client.sources.syncStatus(id)) }),
        )
        if (given === undefined) cli.print(rows, { columns, id: 'job_id' })
        else cli.print(rows[0] as Row, { columns: columns.map(({ show: _, ...column }) => column), id: 'job_id' })
      }
    }),
  )
