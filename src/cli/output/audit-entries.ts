/** Columns, flags and listing of the audit log. */
import type { Command } from 'commander'
import type { AuditEntry, AuditFilter } from '../../client/audit.ts'
import type { Client } from '../../client/client.ts'
import { parseDurationFlag } from '../arguments/flag-values.ts'
import { usage } from '../runtime/exit.ts'
import type { Column } from './output.ts'

export const auditColumns: Column<AuditEntry>[] = [
  ...['seq', 'at', 'actor', 'action', 'target', 'outcome', 'code', 'ip'].map((name) => ({ name })),
  ...['via', 'details', 'request_id', 'actor_id', 'hash'].map((name) => ({ name, show: 'wide' as const })),
]

export interface AuditFlags {
  actor?: string
  action?: string
  outcome?: string
  ip?: string
  since?: string
  from?: string
  to?: string
}

/** Adds the flags that filter entries. */
export const addAuditFlags = (command: Command): Command =>
  command
    .option('--actor <user>', 'only of this user (name or id), "operator" or "anonymous"')
    .option('--action <text>', 'only actions that contain this text, e.g. login')
    .option('--outcome <outcome>', 'only this outcome: ok, refused or failed')
    .option('--ip <address>', 'only from this address')
    .option('--from <date>', 'at this time or later (2026-11-20, 2026-11-20T08:00:00Z)')
    .option('--to <date>', 'at this time or earlier')
    .option('--since <duration>', 'within this time, e.g. 24h or 7d; excludes --from')

/** Converts the flags to a filter. Throws Failure USAGE. */
export function parseAuditFilter({ since, ...filter }: AuditFlags): AuditFilter {
  if (since === undefined) return filter
  if (filter.from !== undefined) throw usage('--since excludes --from')
  return { ...filter, from: new Date(Date.now() - parseDurationFlag('--since', since)).toISOString() }
}

/** Yields all matching entries; `order` is that of the API. */
export const listAuditEntries = ({ audit }: Client, filter: AuditFilter, order: 'asc' | 'desc'): AsyncGenerator<AuditEntry> =>
  audit.all({ ...filter, order })
