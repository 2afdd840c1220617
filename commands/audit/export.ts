import type { Command } from 'commander'
import { type AuditFlags, addAuditFlags, listAuditEntries, parseAuditFilter } from '../../src/cli/output/audit-entries.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'

export const auditExport = (cli: Cli): Command =>
  addAuditFlags(
    manual('export', {
      summary: 'Export the audit log as JSON Lines, oldest first',
      examples: [
        ['audit export > audit.jsonl', ''],
        ['audit export --since 1d | logger -t dms-audit', 'from cron, to syslog'],
      ],
      exits: '0 exported · 2 bad filter · 4 not signed in · 5 not an admin · 69 server unreachable',
      notes: ['Ignores --output.'],
    }),
  ).action(async (flags: AuditFlags) => {
    const filter = parseAuditFilter(flags)
    for await (const entry of listAuditEntries(await cli.client(), filter, 'asc')) cli.write(`${JSON.stringify(entry)}\n`)
  })
