/** Holds in arguments: a name or an id. */
import type { Client } from '../../client/client.ts'
import { isId } from '../../id.ts'
import { printIdLookup } from '../remote/curl-lookup.ts'
import { Failure } from '../runtime/exit.ts'

export type Hold = Awaited<ReturnType<Client['holds']['get']>>

const entries = { path: '/api/holds?released=false', list: 'holds', fields: ['name'], variable: 'hold' }

/** Finds a hold by id, else by the name of a hold in force. A client that prints requests returns only an id. Throws Failure NOT_FOUND. */
export async function findHold(client: Client, nameOrId: string): Promise<Hold> {
  const printedId = printIdLookup(client, nameOrId, entries)
  if (printedId !== null) return { id: printedId, name: nameOrId.trim() } as Hold
  const key = nameOrId.trim().normalize('NFC').toLowerCase()
  if (isId(key)) return client.holds.get(key)
  const hold = (await client.holds.list({ released: false })).find(({ name }) => name.normalize('NFC').toLowerCase() === key)
  if (!hold) throw new Failure('NOT_FOUND', `no hold "${nameOrId}" in force`, { fix: 'dms holds list' })
  return hold
}
