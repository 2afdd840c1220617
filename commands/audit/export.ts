import type { Command } from 'commander'
import { type AuditFlags, auditFilter, entriesOf, withAuditFilter } from '../../src/cli/output/audit-entries.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'

export const auditExport = (cli: Cli): Command =>
  withAuditFilter(
    manual('export', {
      summary: 'Write the audit log to standard output, oldest first, one JSON object a line, whatever --output says.',
      examples: [
        ['audit export > audit.jsonl', 'all of it'],
        ['audit export --since 1d | logger -t dms-audit', 'from cron, to another machine by syslog'],
      ],
      exits: '0 written · 2 bad filter · 4 not signed in · 5 not an admin · 69 unreachable',
    }),
  ).action(async (flags: AuditFlags) => {
    const filter = auditFilter(flags)
    for await (const entry of entriesOf(await cli.client(), filter, 'asc')) cli.write(`${JSON.stringify(entry)}\n`)
  })
