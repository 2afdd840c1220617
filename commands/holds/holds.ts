import { manyIdsNote, parseId, readIds, sumOfRequests } from '../../src/cli/arguments/ids.ts'
import { confirm } from '../../src/cli/arguments/prompt.ts'
import { group, manual } from '../../src/cli/output/manual.ts'
import { columnsOf, type PlainColumn, pluralize } from '../../src/cli/output/output.ts'
import { printIdLookup } from '../../src/cli/remote/curl-lookup.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { Failure } from '../../src/cli/runtime/exit.ts'
import type { Client } from '../../src/client/client.ts'
import { isId } from '../../src/id.ts'
import { dms } from '../../src/log/fix.ts'

const columns: PlainColumn[] = [
  { name: 'id', show: 'wide' },
  { name: 'name' },
  { name: 'document_count', title: 'DOCUMENTS', align: 'right' },
  ...columnsOf(['created_by', 'created_at', 'released_at']),
  { name: 'reason', show: 'wide' },
]

export const holds = (cli: Cli) =>
  group('holds', 'Keep documents from being destroyed', [list(cli), create(cli), add(cli), remove(cli), release(cli), deleteHold(cli)])

const list = (cli: Cli) =>
  manual('list', {
    summary: 'List holds, newest first',
    examples: [
      ['holds list', 'those in force'],
      ['holds list --all -o wide', 'released ones too, with their reasons'],
    ],
    exits: '0 listed · 4 not signed in · 5 not an admin · 69 server unreachable',
  })
    .alias('ls')
    .option('--all', 'released holds too')
    .action(async ({ all }: { all?: boolean }) => {
      const client = await cli.client()
      cli.print(await client.holds.list(all ? {} : { released: false }), { columns })
    })

const create = (cli: Cli) =>
  manual('create <name>', {
    summary: 'Create a hold',
    examples: [["holds create 'case 4711' --reason 'claim of 2026-11-02'", '']],
    exits: '0 created · 2 invalid value · 5 not an admin · 7 a hold in force has the name',
  })
    .option('--reason <text>', 'why the documents must be kept')
    .action(async (name: string, { reason }: { reason?: string }) => {
      const client = await cli.client()
      const hold = await client.holds.create({ name, reason })
      cli.print(hold, { columns, sentence: `✓ Created hold "${hold.name}" (id ${hold.id})` })
    })

const add = (cli: Cli) =>
  manual('add <hold> <id...>', {
    summary: 'Put documents under a hold',
    examples: [
      ["holds add 'case 4711' 0192f0c1-…", ''],
      ["dms documents list --label telecom --all -o id | dms holds add 'case 4711' -", 'ids from a pipe'],
    ],
    exits: '0 added, or were under the hold · 5 not an admin · 6 no such hold or document; nothing was changed · 7 the hold was released',
    notes: [manyIdsNote],
  }).action((nameOrId: string, ids: string[]) => changeDocuments(cli, nameOrId, ids, 'add'))

const remove = (cli: Cli) =>
  manual('remove <hold> <id...>', {
    summary: 'Remove documents from a hold',
    examples: [["holds remove 'case 4711' 0192f0c1-…", '']],
    exits:
      '0 removed, or were not under the hold · 5 not an admin · 6 no such hold or document; nothing was changed · 7 the hold was released',
    notes: [manyIdsNote],
  }).action((nameOrId: string, ids: string[]) => changeDocuments(cli, nameOrId, ids, 'remove'))

const release = (cli: Cli) =>
  manual('release <hold>', {
    summary: 'Release a hold; it stays as a record',
    examples: [
      ["holds release 'case 4711'", 'asks first, with the number of documents'],
      ["holds release 'case 4711' --yes", 'for a script'],
    ],
    exits: '0 released, or was released before · 2 no terminal to confirm on, and no --yes · 5 not an admin · 6 no such hold',
    notes: ['A released hold stays released. Documents under another hold or under retention are still kept.'],
  })
    .option('-y, --yes', 'release without asking')
    .action(async (nameOrId: string, { yes }: { yes?: boolean }) => {
      const client = await cli.client()
      const hold = await findHold(client, nameOrId)
      if (!yes) await confirm(cli.options, `Release hold "${hold.name}" of ${pluralize(hold.document_count, 'document')}?`)
      cli.print(await client.holds.release(hold.id), { columns, sentence: `✓ Released hold "${hold.name}"` })
    })

const deleteHold = (cli: Cli) =>
  manual('delete <hold>', {
    summary: 'Delete a hold that is released or empty',
    examples: [['holds delete 0192f0c1-… --yes', 'a released hold is given by its id']],
    exits: '0 deleted · 2 no terminal to confirm on, and no --yes · 5 not an admin · 6 no such hold · 7 in force, and has documents',
  })
    .option('-y, --yes', 'delete without asking')
    .action(async (nameOrId: string, { yes }: { yes?: boolean }) => {
      const client = await cli.client()
      const hold = await findHold(client, nameOrId)
      if (!yes) await confirm(cli.options, `Delete hold "${hold.name}"?`)
      await client.holds.delete(hold.id)
      cli.print(hold, { columns, sentence: `✓ Deleted hold "${hold.name}"` })
    })

async function changeDocuments(cli: Cli, nameOrId: string, idArguments: readonly string[], change: 'add' | 'remove'): Promise<void> {
  const ids = (await readIds(idArguments)).map((id) => parseId(id, 'document'))
  const client = await cli.client()
  const { id, name } = await findHold(client, nameOrId)
  if (ids.length === 0) cli.warn('no ids on standard input: nothing was changed')
  const { holds } = client
  const changed = await sumOfRequests(ids, async (some) =>
    change === 'add' ? (await holds.add(id, some)).added : (await holds.remove(id, some)).removed,
  )
  const verb = change === 'add' ? `Added to hold "${name}":` : `Removed from hold "${name}":`
  cli.print(
    { id, hold: name, documents: ids.length, changed },
    { columns: columnsOf(['hold', 'documents', 'changed']), sentence: `✓ ${verb} ${changed} of ${pluralize(ids.length, 'document')}` },
  )
}

type Hold = Awaited<ReturnType<Client['holds']['get']>>

const holdsInForce = { path: '/api/holds?released=false', list: 'holds', fields: ['name'], variable: 'hold' }

/** Finds a hold by id, else by the name of a hold in force. A client that prints requests returns only an id. Throws Failure NOT_FOUND. */
async function findHold(client: Client, nameOrId: string): Promise<Hold> {
  const printedId = printIdLookup(client, nameOrId, holdsInForce)
  if (printedId !== null) return { id: printedId, name: nameOrId.trim() } as Hold
  const key = nameOrId.trim().normalize('NFC').toLowerCase()
  if (isId(key)) return client.holds.get(key)
  const hold = (await client.holds.list({ released: false })).find(({ name }) => name.normalize('NFC').toLowerCase() === key)
  if (!hold) throw new Failure('NOT_FOUND', `no hold "${nameOrId}" in force`, { fix: dms`holds list` })
  return hold
}
