import type { Client } from '../client/client.ts'
import { Failure } from './exit.ts'
import { isId } from './ids.ts'

/** Ids of labels given by id or name, separated by commas. Throws Failure NOT_FOUND for a name that no label has. */
export async function labelIdsOf(client: Client, given: string): Promise<string[]> {
  const wanted = given
    .split(',')
    .map((label) => label.trim())
    .filter((label) => label !== '')
  if (wanted.every(isId)) return wanted
  const labels = await client.labels.list()
  return wanted.map((label) => {
    if (isId(label)) return label
    const found = labels.find(({ name }) => name.toLowerCase() === label.toLowerCase())
    if (!found) throw new Failure('NOT_FOUND', `no label "${label}"`)
    return found.id
  })
}
