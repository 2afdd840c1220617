import { Option } from 'commander'
import { parseId, readIds } from '../../src/cli/arguments/ids.ts'
import { futureTimeFlag, parseFutureTime } from '../../src/cli/arguments/time-span.ts'
import { addLimitFlags, type ListFlags, parseLimit, printList } from '../../src/cli/output/listing.ts'
import { group, manual } from '../../src/cli/output/manual.ts'
import { columnsOf, type PlainColumn } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { runIdBatch } from '../../src/cli/runtime/run-batch.ts'
import type { Client } from '../../src/client/client.ts'

export const retention = (cli: Cli) => group('retention', 'Set and report the retention of documents', [set(cli), report(cli)])

const set = (cli: Cli) =>
  manual('set <id...>', {
    summary: 'Retain documents until a date',
    examples: [
      ['retention set 0192f0c1-… --until 2036-12-31', ''],
      ['dms documents list --label contracts --all -o id | dms retention set - --until 3650d', 'ids from a pipe'],
    ],
    exits: '0 set · 2 not a date · 3 some could not be set · 6 no such document · 7 the retention ends later already',
    notes: ['Nobody can shorten a retention, and nobody can destroy the document before its end. A date means its last moment in UTC.'],
  })
    .addOption(futureTimeFlag('--until', 'a date (2036-12-31), or a time from now (3650d)').makeOptionMandatory())
    .action(async (idArguments: string[], { until }: { until: string }) => {
      const ids = (await readIds(idArguments)).map((id) => parseId(id, 'document'))
      const client = await cli.client()
      const retain_until = await parseFutureTime(cli, client, '--until', until)
      const batch = {
        command: 'retention set',
        phase: 'retaining',
        action: 'retained',
        noun: 'document',
        run: async ({ documents }: Client, id: string) => void (await documents.update(id, { retain_until })),
      }
      await runIdBatch(cli, ids, batch, client)
    })

const columns: PlainColumn[] = [
  ...columnsOf(['id', 'title', 'owner']),
  { name: 'size', align: 'right' },
  { name: 'retain_until', title: 'RETAINED_UNTIL' },
  { name: 'holds' },
  { name: 'deleted_at', title: 'IN_TRASH_SINCE', show: 'wide' },
]
const monthColumns: PlainColumn[] = [{ name: 'month' }, ...columnsOf(['documents', 'bytes'], { align: 'right' })]
const holdColumns: PlainColumn[] = [{ name: 'name', title: 'HOLD' }, ...columnsOf(['documents', 'bytes'], { align: 'right' })]

const report = (cli: Cli) =>
  addLimitFlags(
    manual('report', {
      summary: 'Report what is under retention or hold',
      examples: [
        ['retention report', 'the documents whose retention ends first'],
        ['retention report --by month -o csv', 'what ends when'],
        ['retention report --by hold', 'what is held'],
        ['retention report --all -o csv', 'every document'],
      ],
      exits: '0 printed · 4 not signed in · 69 server unreachable',
      notes: ['Users see their own documents, admins see all. Bytes are those of all versions.'],
    }),
  )
    .addOption(new Option('--by <what>', 'print sums instead of documents').choices(['month', 'hold']))
    .action(async ({ by, ...flags }: ListFlags & { by?: 'month' | 'hold' }) => {
      const limit = parseLimit(flags)
      const client = await cli.client()
      if (!by) return printList(cli, client.holds.retained({ per_page: Math.min(limit, 100) }), limit, { columns })
      const { summary } = await client.holds.report({ per_page: 1 })
      if (by === 'month') cli.print(summary?.months ?? [], { columns: monthColumns })
      else cli.print(summary?.holds ?? [], { columns: holdColumns })
    })
