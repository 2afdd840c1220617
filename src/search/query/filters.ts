/** Converts the filters of a request, with names, to the filter of the search engine. No other file restricts searches to the documents that the actor may see. */
import { type Actor, isAdmin } from '../../actor.ts'
import type { App } from '../../app.ts'
import type { DocumentStatus } from '../../db/schema-documents.ts'
import { labelKey } from '../../documents/document-labels.ts'
import { lowestConfidence } from '../../documents/view.ts'
import { parseUserIdentifier } from '../../http/user-identifier.ts'
import { isId } from '../../id.ts'
import { noFilter, type SearchFilter } from '../../ports/search-engine.ts'
import { earliest, latest, type ParsedQuery } from './qualifiers.ts'

/** Filters of a request: labels by id or name (case-insensitive), the owner by id or user name. */
export interface Filters {
  mime_types?: readonly string[] | undefined
  labels?: readonly string[] | undefined
  label_ids?: readonly string[] | undefined
  status?: readonly DocumentStatus[] | undefined
  source_id?: string | undefined
  date_range?: { from?: Date | undefined; to?: Date | undefined } | undefined
  document_date?: { from?: string | undefined; to?: string | undefined } | undefined
  min_confidence?: number | undefined
  owner?: string | undefined
}

/** Returns the filter for all documents that the actor may see. */
export const visibleTo = (actor: Actor): SearchFilter => ({ ...noFilter, ownerId: isAdmin(actor) ? null : actor.id })

/** Combines the filters of a request with those in the query text. Returns null if no document can pass. Adds to `warnings`. */
export async function resolveFilter(
  app: App,
  actor: Actor,
  filters: Filters,
  typed: ParsedQuery,
  warnings: string[],
): Promise<SearchFilter | null> {
  const owner = await resolveOwner(app, actor, filters, typed, warnings)
  if (owner === null) return null
  const labels = await resolveLabels(app, filters, typed, warnings)
  if (labels === null) return null
  const mimeTypes = intersect(filters.mime_types ?? [], typed.types, isTypeOf)
  const status = intersect(filters.status ?? [], typed.status, (one, other) => one === other)
  if (mimeTypes === null || status === null) return null
  return {
    ...owner,
    mimeTypes,
    notMimeTypes: typed.notTypes,
    ...labels,
    status,
    sourceId: filters.source_id?.toLowerCase() ?? null,
    from: latest(filters.date_range?.from ?? null, typed.from),
    to: earliest(filters.date_range?.to ?? null, typed.to),
    datedFrom: latest(filters.document_date?.from ?? null, typed.datedFrom),
    datedTo: earliest(filters.document_date?.to ?? null, typed.datedTo),
    // Documents without OCR have no confidence: 0 must not exclude them.
    minConfidence: lowestConfidence(filters.min_confidence),
  }
}

/** Returns null if the filters name different owners, one that does not exist, or one whose documents the actor may not see. */
async function resolveOwner(
  app: App,
  actor: Actor,
  filters: Filters,
  typed: ParsedQuery,
  warnings: string[],
): Promise<Pick<SearchFilter, 'ownerId'> | null> {
  const owners = [...new Set([filters.owner, typed.owner].filter((owner) => owner !== undefined && owner !== null))]
  const ownerIds = [...new Set(await Promise.all(owners.map((owner) => findUserId(app, owner))))]
  const ownerId = ownerIds[0] ?? null
  if (typed.owner !== null) {
    const typedId = ownerIds.at(-1) ?? null
    // Only admins may learn whether a user exists.
    if (!isAdmin(actor) && typedId !== actor.id) warnings.push(`owner:${typed.owner} is not you: only your own documents are searched`)
    if (isAdmin(actor) && typedId === null) warnings.push(`owner:${typed.owner} does not exist: no document matches`)
  }
  if (ownerIds.length > 1 || (ownerIds.length > 0 && ownerId === null)) return null
  if (!isAdmin(actor) && ownerId !== null && ownerId !== actor.id) return null
  return { ownerId: isAdmin(actor) ? ownerId : actor.id }
}

/** Returns null if a required label does not exist. */
async function resolveLabels(
  app: App,
  filters: Filters,
  typed: ParsedQuery,
  warnings: string[],
): Promise<Pick<SearchFilter, 'labelIds' | 'notLabelIds'> | null> {
  const names = [...(filters.labels ?? []), ...(filters.label_ids ?? []), ...typed.labels]
  const labels = await Promise.all(names.map((label) => findLabelId(app, label)))
  const notLabels = await Promise.all(typed.notLabels.map((label) => findLabelId(app, label)))
  for (const label of typed.labels.filter((_, nth) => labels.at(nth - typed.labels.length) === null))
    warnings.push(`label:${label} does not exist: no document has it`)
  for (const label of typed.notLabels.filter((_, nth) => notLabels[nth] === null))
    warnings.push(`-label:${label} does not exist: no document has it`)
  const labelIds = labels.filter((id) => id !== null)
  return labelIds.length < labels.length ? null : { labelIds, notLabelIds: notLabels.filter((id) => id !== null) }
}

/** Returns the intersection of two lists; null if it is empty. An empty list allows every value. */
function intersect(
  one: readonly string[],
  other: readonly string[],
  isWithin: (narrow: string, wide: string) => boolean,
): readonly string[] | null {
  if (one.length === 0) return other
  if (other.length === 0) return one
  const narrower = [
    ...one.filter((value) => other.some((wide) => isWithin(value, wide))),
    ...other.filter((value) => one.some((wide) => isWithin(value, wide))),
  ]
  return narrower.length === 0 ? null : [...new Set(narrower)]
}

/** Returns whether a media type equals another one, or is of its family (`image/*`). */
const isTypeOf = (type: string, wide: string): boolean => {
  const [narrow, other] = [type.toLowerCase(), wide.toLowerCase()]
  return narrow === other || (other.endsWith('/*') && narrow.startsWith(other.slice(0, -1)))
}

async function findUserId(app: App, owner: string): Promise<string | null> {
  const { column, value } = parseUserIdentifier(owner)
  const user = await app.db.selectFrom('users').select('id').where(column, '=', value).executeTakeFirst()
  return user?.id ?? null
}

async function findLabelId(app: App, label: string): Promise<string | null> {
  const column = isId(label) ? 'id' : 'name_key'
  const row = await app.db.selectFrom('labels').select('id').where(column, '=', labelKey(label)).executeTakeFirst()
  return row?.id ?? null
}
