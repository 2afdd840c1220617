import { type AuditFlags, addAuditFlags, auditColumns, listAuditEntries } from '../../src/cli/output/audit-entries.ts'
import { startJsonArray } from '../../src/cli/output/json-array.ts'
import { addLimitFlags, type ListFlags, parseLimit, printList, waitForReader } from '../../src/cli/output/listing.ts'
import { group, manual } from '../../src/cli/output/manual.ts'
import { type Column, jsonRow, rejectOutputFlags } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'
import type { Client } from '../../src/client/client.ts'

export const audit = (cli: Cli) => group('audit', 'List, export and verify the audit log', [list(cli), exportLog(cli), verify(cli)])

const list = (cli: Cli) =>
  addLimitFlags(
    addAuditFlags(
      manual('list', {
        summary: 'List audit entries, newest first',
        examples: [
          ['audit list', 'the newest 50'],
          ['audit list --outcome refused --since 24h', 'refused attempts'],
          ['audit list --actor ana --action DELETE --all -o csv', ''],
        ],
        exits: '0 listed · 2 bad filter · 4 not signed in · 5 not an admin · 69 server unreachable',
      }).alias('ls'),
    ),
  ).action(async ({ limit, all, ...flags }: AuditFlags & ListFlags) => {
    const max = parseLimit({ limit, all })
    await printList(cli, listAuditEntries(cli, flags, 'desc'), max, { columns: auditColumns })
  })

const exportLog = (cli: Cli) =>
  addAuditFlags(
    manual('export', {
      summary: 'Export the audit log as JSON Lines, oldest first',
      examples: [
        ['audit export > audit.jsonl', ''],
        ['audit export --since 1d | logger -t dms-audit', 'from cron, to syslog'],
      ],
      exits: '0 exported · 2 bad filter · 4 not signed in · 5 not an admin · 69 server unreachable',
      notes: ['With -o json prints an array. For CSV: dms audit list --all -o csv.'],
    }),
  ).action(async (flags: AuditFlags) => {
    rejectOutputFlags({ ...cli.options, fields: null }, 'the export is JSON Lines')
    const array = cli.options.format === 'json' ? startJsonArray(cli.write) : null
    for await (const entry of listAuditEntries(cli, flags, 'asc')) {
      const row = jsonRow(entry, { columns: auditColumns }, cli.options)
      if (array) array.add(row)
      else cli.write(`${JSON.stringify(row)}\n`)
      await waitForReader()
    }
    array?.end()
    if (array) cli.write('\n')
  })

type Verification = Awaited<ReturnType<Client['audit']['verify']>>

const verificationColumns: Column<Verification>[] = [
  { name: 'ok' },
  { name: 'entries', align: 'right' },
  { name: 'head', value: ({ head }) => (head ? `${head.seq}:${head.hash}` : '') },
  { name: 'problem', value: ({ problem }) => (problem ? `entry ${problem.seq}: ${problem.message}` : '') },
]

const verify = (cli: Cli) =>
  manual('verify', {
    summary: 'Verify the hash chain of the audit log',
    examples: [
      ['audit verify', 'prints the head, to store on another machine'],
      ['audit verify --head 1284:9f2c…', 'also checks that the log still contains this head'],
      ['dms audit verify -o json > head', 'then: audit verify --head "$(cat head)"'],
    ],
    exits: '0 intact · 2 bad --head · 3 entries changed, removed or truncated · 5 not an admin · 69 server unreachable',
    notes: ['Somebody with write access to the database can rewrite the whole log. Only a head stored elsewhere detects that.'],
  })
    .option('--head <number:hash>', 'head printed by an earlier run, also as JSON')
    .action(async ({ head }: { head?: string }) => {
      const expectedHead = head === undefined ? null : parseHead(head)
      const client = await cli.client()
      const verification = await client.audit.verify(expectedHead)
      if (!verification.ok) cli.exit = 'PARTIAL'
      cli.print(verification, { columns: verificationColumns, isQuery: false })
    })

/** Parses NUMBER:HASH, or the head as JSON, alone or in the whole output of `-o json`. */
function parseHead(text: string): { seq: number; hash: string } {
  const [, jsonSeq, jsonHash] = /^\s*\{.*?"seq":\s*(\d+),\s*"hash":\s*"(\w+)"/s.exec(text) ?? []
  const head = jsonSeq === undefined ? text.trim() : `${jsonSeq}:${jsonHash}`
  const [, seq, hash] = /^([1-9]\d*):([0-9a-f]{64})$/.exec(head) ?? []
  if (seq === undefined || hash === undefined) throw usage(`--head ${head} is not NUMBER:HASH with a hash of 64 hexadecimal digits`)
  return { seq: Number(seq), hash }
}
