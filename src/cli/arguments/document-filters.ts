/** Flags that select documents. */
import { type Command, Option } from 'commander'
import type { Client, Query } from '../../client/client.ts'
import { parseDurationFlag, SuggestingOption } from './flag-values.ts'
import { findLabelIds } from './labels.ts'
import { findSourceId } from './sources.ts'
import { findOwnerId } from './users.ts'

/** Statuses of a document. */
export const documentStatuses = ['pending', 'processing', 'completed', 'failed']

export interface FilterFlags {
  status?: string
  source?: string
  label?: string
  from?: string
  /** end of the time span */
  to?: string
  since?: string
  owner?: string
}

/** Adds the flags. `end` names the flag for the end of the time span. */
export const addFilterFlags = (command: Command, end: '--to' | '--until' = '--to'): Command =>
  command
    .addOption(
      new SuggestingOption('--status <names>', 'only these, separated by commas: pending, processing, completed, failed', documentStatuses),
    )
    .option('--source <source>', 'only from this source (name or id)')
    .option('--label <labels>', 'only with all these labels (names or ids, separated by commas)')
    .option('--from <date>', 'created at this time or later (2026-11-20, 2026-11-20T08:00:00Z)')
    .option(`${end} <date>`, 'created at this time or earlier')
    .addOption(new Option('--since <duration>', 'created within this time, e.g. 24h or 7d').conflicts('from'))
    .option('--owner <user>', 'only of this user (name or id); for admins')

/** Converts the flags to a query of the API. Throws Failure USAGE, and NOT_FOUND for an unknown label, source or owner. */
export async function buildDocumentQuery(client: Client, { status, source, label, from, to, since, owner }: FilterFlags): Promise<Query> {
  return {
    status,
    source_id: source === undefined ? undefined : await findSourceId(client, source),
    date_from: since === undefined ? from : new Date(Date.now() - parseDurationFlag('--since', since)).toISOString(),
    date_to: to,
    owner: owner === undefined ? undefined : await findOwnerId(client, owner),
    label_ids: label === undefined ? undefined : (await findLabelIds(client, label)).join(','),
  }
}
