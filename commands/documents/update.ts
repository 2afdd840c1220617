import type { Command } from 'commander'
import { parseKeyValues } from '../../src/cli/arguments/flag-values.ts'
import { parseId, readIds } from '../../src/cli/arguments/ids.ts'
import { findLabelIds } from '../../src/cli/arguments/labels.ts'
import { manual } from '../../src/cli/output/manual.ts'
import { lookupPrinterOf } from '../../src/cli/remote/curl-lookup.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'
import { mapSequential, runBatch } from '../../src/cli/runtime/run-batch.ts'
import { collect } from '../../src/cli/upload/flags.ts'
import type { Client } from '../../src/client/client.ts'
import type { DocumentView } from '../../src/documents/view.ts'
import { allDocumentColumns } from './get.ts'

interface Flags {
  title?: string
  addLabel: string[]
  removeLabel: string[]
  set: string[]
  unset: string[]
}

interface Changes {
  readonly title: string | undefined
  readonly metadata: Readonly<Record<string, string | null>> | undefined
  /** ids */
  readonly added: readonly string[]
  readonly removed: readonly string[]
}

/** Somebody else may change a document between our look and our write; then it is looked at again, so often. */
const attempts = 5

export const documentsUpdate = (cli: Cli): Command =>
  manual('update <id...>', {
    summary: 'Change title, labels or metadata of documents',
    examples: [
      ["documents update 0192f0c1-… --title 'Rental contract'", ''],
      ['documents update 0192f0c1-… --add-label paid --remove-label inbox', ''],
      ['dms search query telecom -o id | dms documents update - --set account=4711 --unset draft', 'ids from a pipe'],
    ],
    exits:
      '0 changed · 2 nothing to change, or invalid value · 3 some could not be changed · 6 no such document or label · 69 server unreachable',
  })
    .option('--title <title>', 'new title, for a single document')
    .option('--add-label <labels>', 'labels to add (names or ids, separated by commas); repeatable', collect, [])
    .option('--remove-label <labels>', 'labels to remove; repeatable', collect, [])
    .option('--set <key=value>', 'metadata entry to set; repeatable', collect, [])
    .option('--unset <key>', 'metadata entry to remove; repeatable', collect, [])
    .action(async (given: string[], flags: Flags) => {
      const ids = await readIds(given)
      const { title, set, unset } = flags
      if (title !== undefined && ids.length !== 1) throw usage(`--title is for a single document, and these are ${ids.length}`)
      const metadata =
        set.length + unset.length === 0
          ? undefined
          : { ...parseKeyValues('--set', set), ...Object.fromEntries(unset.map((key) => [key, null])) }
      if (title === undefined && !metadata && flags.addLabel.length + flags.removeLabel.length === 0)
        throw usage('nothing to change', 'pass --title, --add-label, --remove-label, --set or --unset')
      const client = await cli.client()
      const added = await findLabelIds(client, flags.addLabel.join(','))
      const removed = await findLabelIds(client, flags.removeLabel.join(','))
      const changes: Changes = { title, metadata, added, removed }
      const [only] = ids
      if (only !== undefined && ids.length === 1) {
        const document = await update(client, parseId(only, 'document'), changes)
        return cli.print(document, { columns: allDocumentColumns, sentence: `✓ Updated "${document.title}"` })
      }
      await runBatch(cli, {
        command: 'documents update',
        phase: 'changing',
        items: ids,
        keyOf: (id) => id,
        async run(key) {
          const { id } = await update(client, parseId(key, 'document'), changes)
          return { action: 'updated', key, id }
        },
      })
    })

/** The API takes the whole set of labels: what others changed meanwhile must not be undone. */
async function update(client: Client, id: string, { title, metadata, added, removed }: Changes): Promise<DocumentView> {
  if (added.length + removed.length === 0) return client.documents.update(id, { title, metadata })
  if (lookupPrinterOf(client)) return print(client, id, { title, metadata, added, removed })
  for (let attempt = 1; ; attempt++) {
    const { document, etag } = await client.documents.getWithEtag(id)
    const labels = [...new Set([...document.label_ids, ...added])].filter((label) => !removed.includes(label))
    try {
      return await client.documents.update(id, { title, metadata, labels }, { etag })
    } catch (error) {
      if ((error as { code?: unknown }).code !== 'PRECONDITION_FAILED' || attempt === attempts) throw error
    }
  }
}

/** Requests that do the same and need to know nothing of the document. */
async function print(client: Client, id: string, { title, metadata, added, removed }: Changes): Promise<never> {
  const requests = [
    ...(title === undefined && !metadata ? [] : [() => client.documents.update(id, { title, metadata })]),
    ...added.map((label) => () => client.labels.assign(label, [id])),
    ...removed.map((label) => () => client.labels.unassign(label, [id])),
  ]
  await mapSequential(requests, async (send) => send())
  throw new Error('a client that only prints has sent something')
}
