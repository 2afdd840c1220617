/** Labels in arguments: a name or an id. */
import type { Client } from '../../client/client.ts'
import { isId } from '../../id.ts'
import { dms } from '../../log/fix.ts'
import { validationIssues } from '../output/error-lines.ts'
import { lookupPrinterOf, printIdLookup } from '../remote/curl-lookup.ts'
import type { Cli } from '../runtime/context.ts'
import { Failure, usage } from '../runtime/exit.ts'

export type Label = Awaited<ReturnType<Client['labels']['list']>>[number]

/** Colour of labels without --colour. */
export const defaultColor = '#6b7280'

const entries = { path: '/api/labels', list: 'labels', fields: ['name'], variable: 'label' }

/** Finds a label by id, else by name. A client that prints requests returns only an id. Throws Failure NOT_FOUND. */
export async function findLabel(client: Client, nameOrId: string): Promise<Label> {
  const printedId = printIdLookup(client, nameOrId, entries)
  return printedId === null ? requireLabel(await client.labels.list(), nameOrId) : ({ id: printedId } as Label)
}

/** Returns the ids of labels given by name or id, separated by commas. Throws Failure NOT_FOUND for an unknown label. */
export async function findLabelIds(client: Client, namesOrIds: string): Promise<string[]> {
  const references = splitLabels(namesOrIds)
  const printedIds = references.map((reference) => printIdLookup(client, reference, entries))
  if (printedIds.every((id) => id !== null)) return printedIds
  const labels = await client.labels.list()
  return references.map((reference) => requireLabel(labels, reference).id)
}

/** Creates the labels that do not exist, of labels given by name or id, separated by commas. Throws Failure NOT_FOUND for an unknown id. */
export async function createMissingLabels(cli: Cli, client: Client, namesOrIds: string): Promise<void> {
  if (lookupPrinterOf(client)) throw usage('--create-labels cannot be combined with --print-curl', dms`labels create NAME`)
  const labels = await client.labels.list()
  for (const name of splitLabels(namesOrIds)) {
    if (matchLabel(labels, name)) continue
    if (isId(name)) throw missingLabel(name)
    try {
      labels.push(await client.labels.create({ name, color: defaultColor }))
      cli.note(`✓ Created label "${name}"`)
    } catch (error) {
      // Another command has created it meanwhile.
      if ((error as { code?: unknown }).code !== 'DUPLICATE_RESOURCE') throw error
    }
  }
}

/** Converts the error of a request that names an unknown label to a Failure NOT_FOUND. Returns other errors unchanged. */
export function describeMissingLabel(error: unknown): unknown {
  const [, name] = /^no label (".*")$/.exec(validationIssues(error)[0]?.message ?? '') ?? []
  return name === undefined ? error : missingLabel(JSON.parse(name))
}

const splitLabels = (namesOrIds: string): string[] =>
  namesOrIds
    .split(',')
    .map((reference) => reference.trim())
    .filter((reference) => reference !== '')

/** Returns the key by which the server compares names. */
const labelKey = (name: string): string => name.trim().normalize('NFC').toLowerCase()

function matchLabel(labels: readonly Label[], nameOrId: string): Label | undefined {
  const key = labelKey(nameOrId)
  return labels.find(({ id }) => id === key) ?? labels.find(({ name }) => labelKey(name) === key)
}

function requireLabel(labels: readonly Label[], nameOrId: string): Label {
  const label = matchLabel(labels, nameOrId)
  if (!label) throw missingLabel(nameOrId)
  return label
}

const missingLabel = (nameOrId: string): Failure =>
  new Failure('NOT_FOUND', `no label "${nameOrId}"`, {
    fix: isId(nameOrId) ? dms`labels list` : [dms`labels create ${nameOrId}`, ', or one of: ', dms`labels list`],
  })
