import { collectValues, parseKeyValues, refuseEmpty } from '../../src/cli/arguments/flag-values.ts'
import { parseId, readIds } from '../../src/cli/arguments/ids.ts'
import { createMissingLabels, findLabelIds } from '../../src/cli/arguments/labels.ts'
import { parseDayFlag } from '../../src/cli/arguments/time-span.ts'
import { manual } from '../../src/cli/output/manual.ts'
import { lookupPrinterOf } from '../../src/cli/remote/curl-lookup.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'
import { mapSequential, runIdBatch } from '../../src/cli/runtime/run-batch.ts'
import type { Client } from '../../src/client/client.ts'
import type { DocumentView } from '../../src/documents/view.ts'
import { allDocumentColumns } from './list.ts'

interface Flags {
  title?: string
  addLabel: string[]
  createLabels?: boolean
  removeLabel: string[]
  set: string[]
  unset: string[]
  date?: string
}

interface Changes {
  readonly title: string | undefined
  /** null: none */
  readonly document_date: string | null | undefined
  readonly metadata: Readonly<Record<string, string | null>> | undefined
  /** Ids of labels. */
  readonly added: readonly string[]
  readonly removed: readonly string[]
}

/** Attempts to update a document that others change at the same time. */
const maxAttempts = 5

export const update = (cli: Cli) =>
  manual('update <id...>', {
    summary: 'Change title, labels, date or metadata of documents',
    examples: [
      ["documents update 0192f0c1-… --title 'Rental contract'", ''],
      ['documents update 0192f0c1-… --add-label paid --remove-label inbox', ''],
      ['dms search query telecom -o id | dms documents update - --set account=4711 --unset draft', 'ids from a pipe'],
      ['documents update 0192f0c1-… --date 2024-03-17', 'the date on the document; none: it has no date'],
    ],
    exits:
      '0 changed · 2 nothing to change, or invalid value · 3 some could not be changed · 6 no such document or label · 69 server unreachable',
  })
    .option('--title <title>', 'new title, for a single document')
    .option('--add-label <labels>', 'labels to add (names or ids, separated by commas); repeatable', collectValues, [])
    .option('--create-labels', 'create labels of --add-label that do not exist')
    .option('--remove-label <labels>', 'labels to remove; repeatable', collectValues, [])
    .option('--set <key=value>', 'metadata entry to set; repeatable', collectValues, [])
    .option('--unset <key>', 'metadata entry to remove; repeatable', collectValues, [])
    .option('--date <date>', 'document date, or none')
    .action(async (idArguments: string[], flags: Flags) => {
      for (const list of flags.addLabel) refuseEmpty('--add-label', 'label', list)
      for (const list of flags.removeLabel) refuseEmpty('--remove-label', 'label', list)
      const ids = await readIds(idArguments)
      const { title, set, unset, date } = flags
      if (title !== undefined && ids.length !== 1) throw usage(`--title needs a single document, not ${ids.length}`)
      const metadata =
        set.length + unset.length === 0
          ? undefined
          : { ...parseKeyValues('--set', set), ...Object.fromEntries(unset.map((key) => [key, null])) }
      const document_date = date === undefined ? undefined : date === 'none' ? null : parseDayFlag('--date', date)
      if (title === undefined && !metadata && document_date === undefined && flags.addLabel.length + flags.removeLabel.length === 0)
        throw usage('nothing to change', 'pass --title, --add-label, --remove-label, --date, --set or --unset')
      const client = await cli.client()
      if (flags.createLabels) await createMissingLabels(cli, client, flags.addLabel.join(','))
      const added = await findLabelIds(client, flags.addLabel.join(','))
      const removed = await findLabelIds(client, flags.removeLabel.join(','))
      const changes: Changes = { title, document_date, metadata, added, removed }
      const [only] = ids
      if (only !== undefined && ids.length === 1) {
        const document = await updateDocument(client, parseId(only, 'document'), changes)
        return cli.print(document, { columns: allDocumentColumns, sentence: `✓ Updated "${document.title}"` })
      }
      const batch = { command: 'documents update', phase: 'changing', action: 'updated', noun: 'document' }
      await runIdBatch(cli, ids, { ...batch, run: async (_, id) => void (await updateDocument(client, id, changes)) }, client)
    })

/** Updates a document. The API replaces all labels, so If-Match protects concurrent changes and the update is retried. */
async function updateDocument(client: Client, id: string, { added, removed, ...fields }: Changes): Promise<DocumentView> {
  if (added.length + removed.length === 0) return client.documents.update(id, fields)
  if (lookupPrinterOf(client)) return printRequests(client, id, { added, removed, ...fields })
  for (let attempt = 1; ; attempt++) {
    const { document, etag } = await client.documents.getWithEtag(id)
    const labels = [...new Set([...document.label_ids, ...added])].filter((label) => !removed.includes(label))
    try {
      return await client.documents.update(id, { ...fields, labels }, { etag })
    } catch (error) {
      if ((error as { code?: unknown }).code !== 'PRECONDITION_FAILED' || attempt === maxAttempts) throw error
    }
  }
}

/** Prints equivalent requests that do not need the current labels, for --print-curl. */
async function printRequests(client: Client, id: string, { added, removed, ...fields }: Changes): Promise<never> {
  const requests = [
    ...(Object.values(fields).every((value) => value === undefined) ? [] : [() => client.documents.update(id, fields)]),
    ...added.map((label) => () => client.labels.assign(label, [id])),
    ...removed.map((label) => () => client.labels.unassign(label, [id])),
  ]
  await mapSequential(requests, async (send) => send())
  throw new Error('a request was sent despite --print-curl')
}
