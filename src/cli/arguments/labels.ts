/** Labels in arguments: a name or an id. */
import type { Client } from '../../client/client.ts'
import { jqIdByName, lookupPrinterOf } from '../remote/curl-lookup.ts'
import { Failure } from '../runtime/exit.ts'
import { isId } from './ids.ts'

export type Label = Awaited<ReturnType<Client['labels']['list']>>[number]

/** Finds a label by id, else by name. A client that prints requests returns a placeholder id only. Throws Failure NOT_FOUND. */
export async function findLabel(client: Client, given: string): Promise<Label> {
  const printed = placeholderId(client, given)
  if (printed !== null) return { id: printed } as Label
  return matchLabel(await client.labels.list(), given)
}

/** Returns the ids of labels given by name or id, separated by commas. Throws Failure NOT_FOUND for an unknown label. */
export async function findLabelIds(client: Client, given: string): Promise<string[]> {
  const wanted = splitLabels([given])
  if (lookupPrinterOf(client)) return wanted.map((label) => placeholderId(client, label) ?? label)
  const labels = await client.labels.list()
  return wanted.map((label) => matchLabel(labels, label).id)
}

/** Splits the values of a repeatable flag at commas. */
export const splitLabels = (given: readonly string[]): string[] =>
  given
    .flatMap((value) => value.split(','))
    .map((label) => label.trim())
    .filter((label) => label !== '')

/** Returns a placeholder for the id if the client prints its requests, else null. */
function placeholderId(client: Client, given: string): string | null {
  const asks = lookupPrinterOf(client)
  if (!asks || isId(given)) return asks && given.toLowerCase()
  return asks({ path: '/api/labels', filter: jqIdByName('labels', ['name']), name: given.trim(), variable: 'label' })
}

function matchLabel(labels: readonly Label[], given: string): Label {
  const key = given.trim().toLowerCase()
  const found = labels.find(({ id }) => id === key) ?? labels.find(({ name }) => name.toLowerCase() === key)
  if (!found) throw new Failure('NOT_FOUND', `no label "${given}"`)
  return found
}
