import { parseCount } from '../../src/cli/arguments/flag-values.ts'
import { manyIdsNote, parseId, readIds, sumOfRequests } from '../../src/cli/arguments/ids.ts'
import { createMissingLabels, defaultColor, findLabel } from '../../src/cli/arguments/labels.ts'
import { confirm } from '../../src/cli/arguments/prompt.ts'
import { group, manual } from '../../src/cli/output/manual.ts'
import { columnsOf, type PlainColumn, pluralize } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'
import type { ClientError } from '../../src/client/client.ts'

const columns: PlainColumn[] = [
  { name: 'id', show: 'wide' },
  ...columnsOf(['name', 'color']),
  { name: 'document_count', title: 'DOCUMENTS', align: 'right' },
  ...columnsOf(['created_by', 'created_at']),
  { name: 'retention_days', title: 'RETENTION', align: 'right', show: 'wide' },
  { name: 'retention_scope', title: 'RETAINS', show: 'wide' },
  { name: 'description', show: 'wide' },
]

export const labels = (cli: Cli) =>
  group('labels', 'Manage labels', [list(cli), create(cli), update(cli), remove(cli), assign(cli), unassign(cli)])

const list = (cli: Cli) =>
  manual('list', {
    summary: 'List labels with their number of documents',
    examples: [
      ['labels list', ''],
      ["labels list -o json | jq -r '.[] | select(.document_count == 0) | .name'", 'unused labels'],
      ['labels list --fields name,document_count -o csv', ''],
    ],
    exits: '0 listed · 4 not signed in · 69 server unreachable',
  })
    .alias('ls')
    .action(async () => {
      const client = await cli.client()
      cli.print(await client.labels.list(), { columns })
    })

/** Parses --retention-days; the server knows the maximum. Throws Failure USAGE. */
const parseRetentionDays = (text: string | undefined): number | undefined =>
  text === undefined ? undefined : parseCount('--retention-days', text)

const create = (cli: Cli) =>
  manual('create <name>', {
    summary: 'Create a label',
    examples: [
      ['labels create invoices', ''],
      ["labels create urgent --colour '#cc0000' --description 'today'", ''],
      ['labels create inbox --if-absent -q', 'for a setup script'],
      ['labels create invoices --retention-days 3650', 'nobody destroys its documents for ten years'],
    ],
    exits: '0 created (or exists, with --if-absent) · 2 invalid value · 4 not signed in · 7 name taken',
  })
    .option('--colour <#rrggbb>', 'colour of the label, also --color', defaultColor)
    .option('--description <text>', 'description')
    .option('--retention-days <days>', 'days for which its documents cannot be destroyed')
    .option('--if-absent', 'succeed if a label of this name exists')
    .action(async (name: string, flags: { colour: string; description?: string; retentionDays?: string; ifAbsent?: boolean }) => {
      const { colour: color, description, ifAbsent } = flags
      const retention_days = parseRetentionDays(flags.retentionDays)
      const client = await cli.client()
      const created = await client.labels.create({ name, color, description, retention_days }).catch((error: ClientError) => {
        if (ifAbsent && error.code === 'DUPLICATE_RESOURCE') return null
        throw error
      })
      const label = created ?? (await findLabel(client, name))
      const sentence = created ? `✓ Created label "${label.name}" (id ${label.id})` : `✓ Label "${label.name}" exists (id ${label.id})`
      cli.print(label, { columns, sentence })
    })

const update = (cli: Cli) =>
  manual('update <label>', {
    summary: 'Change name, colour, description or retention of a label',
    examples: [
      ['labels update invoices --name bills', ''],
      ["labels update urgent --colour '#ff0000'", ''],
      ['labels update invoices --retention-days 3650', 'retains its documents for ten years; nothing shortens that'],
    ],
    notes: [
      'A retention counts from the creation of the document. Set by an admin it retains documents of all users, else only those of the owner of the label.',
    ],
    exits: '0 changed · 2 invalid value · 5 not the owner, and not an admin · 6 no such label · 7 name taken',
  })
    .option('--name <name>', 'new name')
    .option('--colour <#rrggbb>', 'new colour')
    .option('--description <text>', 'new description')
    .option('--retention-days <days>', 'days for which its documents cannot be destroyed, or none')
    .action(async (nameOrId: string, flags: { name?: string; colour?: string; description?: string; retentionDays?: string }) => {
      const { name, colour: color, description } = flags
      const retention_days = flags.retentionDays === 'none' ? null : parseRetentionDays(flags.retentionDays)
      if (Object.keys(flags).length === 0) throw usage('nothing to change', 'pass --name, --colour, --description or --retention-days')
      const client = await cli.client()
      const { id } = await findLabel(client, nameOrId)
      const label = await client.labels.update(id, { name, description, color, retention_days })
      cli.print(label, { columns, sentence: `✓ Updated label "${label.name}"` })
    })

const remove = (cli: Cli) =>
  manual('delete <label>', {
    summary: 'Delete a label and keep its documents',
    examples: [
      ['labels delete inbox', 'asks first, with the number of documents'],
      ['labels delete inbox --yes', 'for a script'],
    ],
    exits: '0 deleted · 2 no terminal to confirm on, and no --yes · 5 not the owner, and not an admin · 6 no such label',
  })
    .alias('rm')
    .option('-y, --yes', 'delete without asking')
    .action(async (nameOrId: string, { yes }: { yes?: boolean }) => {
      const client = await cli.client()
      const label = await findLabel(client, nameOrId)
      if (!yes) await confirm(cli.options, `Delete label "${label.name}" of ${pluralize(label.document_count, 'document')}?`)
      await client.labels.delete(label.id)
      cli.print(label, { columns, sentence: `✓ Deleted label "${label.name}"` })
    })

const assign = (cli: Cli) =>
  manual('assign <label> <id...>', {
    summary: 'Add a label to documents',
    examples: [
      ['labels assign invoices 0192f0c1-…', ''],
      ['dms search query telecom --limit 1000 -o id | dms labels assign telecom -', 'ids from a pipe'],
    ],
    exits: '0 added, or were labelled · 6 no such label or document; nothing was changed',
    notes: [manyIdsNote],
  })
    .option('--create-labels', 'create the label if it does not exist')
    .action((nameOrId: string, ids: string[], { createLabels }: { createLabels?: boolean }) =>
      changeDocuments(cli, nameOrId, ids, 'assign', createLabels),
    )

const unassign = (cli: Cli) =>
  manual('unassign <label> <id...>', {
    summary: 'Remove a label from documents',
    examples: [
      ['labels unassign invoices 0192f0c1-…', ''],
      ['dms documents list --label inbox --all -o id | dms labels unassign inbox -', 'ids from a pipe'],
    ],
    exits: '0 removed, or were not labelled · 6 no such label or document; nothing was changed',
    notes: [manyIdsNote],
  }).action((nameOrId: string, ids: string[]) => changeDocuments(cli, nameOrId, ids, 'unassign'))

async function changeDocuments(
  cli: Cli,
  nameOrId: string,
  idArguments: readonly string[],
  change: 'assign' | 'unassign',
  createLabels = false,
): Promise<void> {
  const ids = (await readIds(idArguments)).map((id) => parseId(id, 'document'))
  const client = await cli.client()
  if (createLabels) await createMissingLabels(cli, client, nameOrId)
  const { id, name } = await findLabel(client, nameOrId)
  if (ids.length === 0) cli.warn('no ids on standard input: nothing was changed')
  const changed = await sumOfRequests(ids, async (some) => (await client.labels[change](id, some)).assigned)
  const verb = change === 'assign' ? `Added label "${name}" to` : `Removed label "${name}" from`
  cli.print(
    { id, label: name, documents: ids.length, changed },
    { columns: columnsOf(['label', 'documents', 'changed']), sentence: `✓ ${verb} ${changed} of ${ids.length} documents` },
  )
}
