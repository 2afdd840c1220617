/** Labels as they are named on a command line: by name or id. */
import type { Client } from '../client/client.ts'
import { Failure } from './exit.ts'
import { isId } from './ids.ts'

export type Label = Awaited<ReturnType<Client['labels']['list']>>[number]

/** The label that is meant: of an id that is also somebody's name the id counts. Throws Failure NOT_FOUND. */
export async function labelNamed(client: Client, given: string): Promise<Label> {
  return labelIn(await client.labels.list(), given)
}

/** Ids of labels given by id or name, separated by commas. Throws Failure NOT_FOUND for a name that no label has. */
export async function labelIdsOf(client: Client, given: string): Promise<string[]> {
  const wanted = labelsIn([given])
  if (wanted.every(isId)) return wanted
  const labels = await client.labels.list()
  return wanted.map((label) => (isId(label) ? label : labelIn(labels, label).id))
}

/** The names or ids in values of a flag that may be given again and hold commas. */
export const labelsIn = (given: readonly string[]): string[] =>
  given
    .flatMap((value) => value.split(','))
    .map((label) => label.trim())
    .filter((label) => label !== '')

function labelIn(labels: readonly Label[], given: string): Label {
  const key = given.trim().toLowerCase()
  const found = labels.find(({ id }) => id === key) ?? labels.find(({ name }) => name.toLowerCase() === key)
  if (!found) throw new Failure('NOT_FOUND', `no label "${given}"`)
  return found
}
