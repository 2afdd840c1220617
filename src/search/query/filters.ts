/** Which documents count, whatever their words are: those that the asker may see, and of them those of the types, labels and so on that were asked for. */
import { type Actor, isAdmin } from '../../actor.ts'
import type { App } from '../../app.ts'
import type { DocumentStatus } from '../../db/schema.ts'
import { labelKey } from '../../documents/document-labels.ts'
import { isId } from '../../http/input.ts'
import { parseUserIdentifier } from '../../http/user-identifier.ts'
import { noFilter, type SearchFilter } from '../../ports/search-engine.ts'
import { earliest, latest, type ParsedQuery } from './qualifiers.ts'

/** As a client names them: labels by id or by name (no case), the owner by id or user name. */
export interface Filters {
  mime_types?: readonly string[] | undefined
  labels?: readonly string[] | undefined
  label_ids?: readonly string[] | undefined
  status?: readonly DocumentStatus[] | undefined
  source_id?: string | undefined
  date_range?: { from?: Date | undefined; to?: Date | undefined } | undefined
  min_confidence?: number | undefined
  owner?: string | undefined
}

/** What the actor sees, and nothing else of anybody. */
export const visibleTo = (actor: Actor): SearchFilter => ({ ...noFilter, ownerId: isAdmin(actor) ? null : actor.id })

/** The filter for the engine, of what was asked and what was typed; null where nothing can pass it. Here and nowhere else users are kept to their own documents. */
export async function resolveFilter(
  app: App,
  actor: Actor,
  filters: Filters,
  typed: ParsedQuery,
  warnings: string[],
): Promise<SearchFilter | null> {
  const owners = [...new Set([filters.owner, typed.owner].filter((owner) => owner !== undefined && owner !== null))]
  const ownerIds = [...new Set(await Promise.all(owners.map((owner) => ownerId(app, owner))))]
  const asked = ownerIds[0] ?? null
  if (typed.owner !== null) {
    const meant = ownerIds.at(-1) ?? null
    // Whether there is such a user is nobody's business but an admin's.
    if (!isAdmin(actor) && meant !== actor.id) warnings.push(`owner:${typed.owner} is not you: you find what is yours`)
    if (isAdmin(actor) && meant === null) warnings.push(`owner:${typed.owner} does not exist: nothing is theirs`)
  }
  if (ownerIds.length > 1 || (ownerIds.length > 0 && asked === null)) return null
  if (!isAdmin(actor) && asked !== null && asked !== actor.id) return null
  const wanted = [...(filters.labels ?? []), ...(filters.label_ids ?? []), ...typed.labels]
  const labels = await Promise.all(wanted.map((label) => labelId(app, label)))
  const notLabels = await Promise.all(typed.notLabels.map((label) => labelId(app, label)))
  for (const label of typed.labels.filter((_, nth) => labels.at(nth - typed.labels.length) === null))
    warnings.push(`label:${label} does not exist: nothing carries it`)
  for (const label of typed.notLabels.filter((_, nth) => notLabels[nth] === null))
    warnings.push(`-label:${label} does not exist: nothing carries it`)
  const labelIds = labels.filter((id) => id !== null)
  if (labelIds.length < labels.length) return null
  const mimeTypes = intersect(filters.mime_types ?? [], typed.types, isTypeOf)
  const status = intersect(filters.status ?? [], typed.status, (one, other) => one === other)
  if (mimeTypes === null || status === null) return null
  return {
    ownerId: isAdmin(actor) ? asked : actor.id,
    mimeTypes,
    notMimeTypes: typed.notTypes,
    labelIds,
    notLabelIds: notLabels.filter((id) => id !== null),
    status,
    sourceId: filters.source_id?.toLowerCase() ?? null,
    from: latest(filters.date_range?.from ?? null, typed.from),
    to: earliest(filters.date_range?.to ?? null, typed.to),
    // What was not read by OCR has no confidence: 0 is to leave out nothing.
    minConfidence: filters.min_confidence || null,
  }
}

/** What is in both lists, of which an empty one means anything; null where that is nothing. */
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

/** Whether a type is another one, or of a family that is meant by `image/*`. */
const isTypeOf = (type: string, wide: string): boolean => {
  const [narrow, other] = [type.toLowerCase(), wide.toLowerCase()]
  return narrow === other || (other.endsWith('/*') && narrow.startsWith(other.slice(0, -1)))
}

async function ownerId(app: App, owner: string): Promise<string | null> {
  const { column, value } = parseUserIdentifier(owner)
  const user = await app.db.selectFrom('users').select('id').where(column, '=', value).executeTakeFirst()
  return user?.id ?? null
}

async function labelId(app: App, label: string): Promise<string | null> {
  const column = isId(label) ? 'id' : 'name_key'
  const found = await app.db.selectFrom('labels').select('id').where(column, '=', labelKey(label)).executeTakeFirst()
  return found?.id ?? null
}
