import type { Command } from 'commander'
import { type AuditFlags, addAuditFlags, auditColumns, listAuditEntries, parseAuditFilter } from '../../src/cli/output/audit-entries.ts'
import { addLimitFlags, type ListFlags, parseLimit, printList } from '../../src/cli/output/listing.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'

export const auditList = (cli: Cli): Command =>
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
    const max = parseLimit({ limit, ...(all ? { all } : {}) })
    const filter = parseAuditFilter(flags)
    await printList(cli, listAuditEntries(await cli.client(), filter, 'desc'), max, { columns: auditColumns })
  })
