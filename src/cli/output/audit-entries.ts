/** Columns, flags and listing of the audit log. */
import type { Command } from 'commander'
import type { AuditEntry } from '../../client/audit.ts'
import { refuseEmpty } from '../arguments/flag-values.ts'
import { addTimeSpanFlags, findReferenceTime, type TimeSpanFlags, timeSpanOf } from '../arguments/time-span.ts'
import type { Cli } from '../runtime/context.ts'
import { type Column, columnsOf } from './output.ts'

export const auditColumns: Column<AuditEntry>[] = [
  ...columnsOf(['seq', 'at', 'actor', 'action', 'target', 'outcome', 'code', 'ip']),
  ...columnsOf(['via', 'details', 'request_id', 'actor_id', 'hash'], { show: 'wide' }),
]

export interface AuditFlags extends TimeSpanFlags {
  actor?: string
  action?: string
  outcome?: string
  ip?: string
}

/** Adds the flags that filter entries. */
export const addAuditFlags = (command: Command): Command =>
  addTimeSpanFlags(command, '')
    .option('--actor <user>', 'only of this user (name or id), "operator" or "anonymous"')
    .option('--action <text>', 'only actions that contain this text, e.g. login')
    .option('--outcome <outcome>', 'only this outcome: ok, refused or failed')
    .option('--ip <address>', 'only from this address')

/** Yields all matching entries; `order` is that of the API. Throws Failure USAGE for an empty filter. */
export async function* listAuditEntries(
  cli: Cli,
  { since, until, from, to, ...filter }: AuditFlags,
  order: 'asc' | 'desc',
): AsyncGenerator<AuditEntry> {
  refuseEmpty('--actor', 'user', filter.actor)
  refuseEmpty('--action', 'text', filter.action)
  refuseEmpty('--ip', 'address', filter.ip)
  const client = await cli.client()
  const span = { since, until, from, to }
  yield* client.audit.all({ ...filter, ...timeSpanOf(span, await findReferenceTime(cli, client, span)), order })
}
