/** Flags that select documents. */
import type { Command } from 'commander'
import type { Client, Query } from '../../client/client.ts'
import type { Cli } from '../runtime/context.ts'
import { refuseEmpty, SuggestingOption } from './flag-values.ts'
import { findLabelIds } from './labels.ts'
import { findSourceId } from './sources.ts'
import { addTimeSpanFlags, findReferenceTime, parsePeriodFlag, periodFlag, type TimeSpanFlags, timeSpanOf } from './time-span.ts'
import { findOwnerId } from './users.ts'

/** Statuses of a document. */
export const documentStatuses = ['pending', 'processing', 'completed', 'failed']

export interface FilterFlags extends TimeSpanFlags {
  status?: string
  source?: string
  label?: string
  owner?: string
  /** false: only documents without text */
  text?: boolean
  warning?: string
  /** period of the document date */
  date?: string
}

/** Adds the flags. `hasTo` false: --to is not a time but the target of the command. */
export const addFilterFlags = (command: Command, options: { hasTo?: boolean } = {}): Command =>
  addTimeSpanFlags(command, 'created ', options)
    .addOption(
      new SuggestingOption('--status <names>', 'only these, separated by commas: pending, processing, completed, failed', documentStatuses),
    )
    .option('--source <source>', 'only from this source (name or id)')
    .option('--label <labels>', 'only with all these labels (names or ids, separated by commas)')
    .addOption(periodFlag())
    .option('--no-text', 'only without text: none was found, or dms cannot read the type')
    .option('--warning <code>', 'only with this warning, such as language_missing')
    .option('--owner <user>', 'only of this user (name or id); for admins')

/** Converts the flags to a query of the API. Throws Failure USAGE, and NOT_FOUND for an unknown label, source or owner. */
export async function buildDocumentQuery(
  cli: Cli,
  client: Client,
  { status, source, label, date, owner, text, warning, ...span }: FilterFlags,
): Promise<Query> {
  refuseEmpty('--label', 'label', label)
  refuseEmpty('--status', 'status', status)
  refuseEmpty('--warning', 'warning', warning)
  const now = await findReferenceTime(cli, client, span, date)
  const { from, to } = timeSpanOf(span, now)
  const period = date === undefined ? null : parsePeriodFlag('--date', date, now)
  return {
    status,
    source_id: source === undefined ? undefined : await findSourceId(client, source),
    text_source: text === false ? 'none,empty' : undefined,
    warning,
    date_from: from,
    date_to: to,
    document_date_from: period?.from ?? undefined,
    document_date_to: period?.to ?? undefined,
    owner: owner === undefined ? undefined : await findOwnerId(client, owner),
    label_ids: label === undefined ? undefined : (await findLabelIds(client, label)).join(','),
  }
}
