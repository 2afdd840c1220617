/** Labels in arguments: a name or an id. */
import type { Client } from '../../client/client.ts'
import { printIdLookup } from '../remote/curl-lookup.ts'
import { Failure } from '../runtime/exit.ts'

export type Label = Awaited<ReturnType<Client['labels']['list']>>[number]

const entries = { path: '/api/labels', list: 'labels', fields: ['name'], variable: 'label' }

/** Finds a label by id, else by name. A client that prints requests returns only an id. Throws Failure NOT_FOUND. */
export async function findLabel(client: Client, nameOrId: string): Promise<Label> {
  const printedId = printIdLookup(client, nameOrId, entries)
  return printedId === null ? matchLabel(await client.labels.list(), nameOrId) : ({ id: printedId } as Label)
}

/** Returns the ids of labels given by name or id, separated by commas. Throws Failure NOT_FOUND for an unknown label. */
export async function findLabelIds(client: Client, namesOrIds: string): Promise<string[]> {
  const references = namesOrIds
    .split(',')
    .map((reference) => reference.trim())
    .filter((reference) => reference !== '')
  const printedIds = references.map((reference) => printIdLookup(client, reference, entries))
  if (printedIds.every((id) => id !== null)) return printedIds
  const labels = await client.labels.list()
  return references.map((reference) => matchLabel(labels, reference).id)
}

function matchLabel(labels: readonly Label[], nameOrId: string): Label {
  const key = nameOrId.trim().toLowerCase()
  const label = labels.find(({ id }) => id === key) ?? labels.find(({ name }) => name.toLowerCase() === key)
  if (!label) throw new Failure('NOT_FOUND', `no label "${nameOrId}"`, { fix: 'dms labels list' })
  return label
}
