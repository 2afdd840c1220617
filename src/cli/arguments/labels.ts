/** Labels as they are named on a command line: by name or id. */
import type { Client } from '../../client/client.ts'
import { jqIdByName, lookupPrinterOf } from '../remote/curl-lookup.ts'
import { Failure } from '../runtime/exit.ts'
import { isId } from './ids.ts'

export type Label = Awaited<ReturnType<Client['labels']['list']>>[number]

/** The label that is meant: of an id that is also somebody's name the id counts. Of a client that only prints, nothing but the id. Throws Failure NOT_FOUND. */
export async function findLabel(client: Client, given: string): Promise<Label> {
  const printed = placeholderId(client, given)
  if (printed !== null) return { id: printed } as Label
  return matchLabel(await client.labels.list(), given)
}

/** Ids of labels given by id or name, separated by commas. Throws Failure NOT_FOUND for what no label has. */
export async function findLabelIds(client: Client, given: string): Promise<string[]> {
  const wanted = splitLabels([given])
  if (lookupPrinterOf(client)) return wanted.map((label) => placeholderId(client, label) ?? label)
  const labels = await client.labels.list()
  return wanted.map((label) => matchLabel(labels, label).id)
}

/** The names or ids in values of a flag that may be given again and hold commas. */
export const splitLabels = (given: readonly string[]): string[] =>
  given
    .flatMap((value) => value.split(','))
    .map((label) => label.trim())
    .filter((label) => label !== '')

/** Of a client that only prints: what stands for the id in its requests. */
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
