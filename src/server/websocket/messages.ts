/** Messages over WebSockets, in both directions. */
import { z } from 'zod'
import { AppError, type Code, codes } from '../../errors.ts'
import type { EventType } from '../../events.ts'
import { parseInput } from '../../http/input.ts'
import { tryParseJson } from '../../json.ts'
import type { LiveEvent } from './event-feed.ts'

const eventTypes = {
  document_created: 'document_created',
  document_updated: 'document_updated',
  document_trashed: 'document_trashed',
  document_restored: 'document_restored',
  document_purged: 'document_purged',
  version_added: 'version_added',
  rendition_updated: 'rendition_updated',
  notification: 'notification',
  notifications: 'notification',
  ocr_progress: 'ocr_progress',
  queue_status: 'queue_status',
  sync_progress: 'sync_progress',
} as const satisfies Record<EventType | 'notifications', EventType>

/** Name of an event type in messages of clients. */
export type EventName = keyof typeof eventTypes

export const typeOf = (name: EventName): EventType => eventTypes[name]

const EventNames = z.array(z.enum(Object.keys(eventTypes) as EventName[])).max(100)

const ClientMessageSchema = z.discriminatedUnion('type', [
  z.object({ type: z.literal('auth'), token: z.string() }),
  z.object({ type: z.literal('subscribe'), events: EventNames, since: z.int().nonnegative().nullish() }),
  z.object({ type: z.literal('unsubscribe'), events: EventNames }),
])

export type ClientMessage = z.infer<typeof ClientMessageSchema>

/** Parses a message of a client; null stands for a binary frame. Throws VALIDATION_ERROR. */
export function parseMessage(text: string | null): ClientMessage {
  const message = tryParseJson(text ?? '')
  if (message === undefined) throw new AppError('VALIDATION_ERROR', {}, 'Messages must be JSON objects in text frames.')
  return parseInput(ClientMessageSchema, message)
}

/** Renders an event. The fields of its data are in `data`, and also at the top level, except for a field named `type`. */
export function renderEvent({ position, type, data, at }: LiveEvent): string {
  const { type: _dataType, ...flat } = data
  return JSON.stringify({ type, ...flat, data, timestamp: at.toISOString(), seq: position })
}

/** Renders an error. */
export const renderError = (code: Code, message: string = codes[code][1], details: Record<string, unknown> = {}): string =>
  JSON.stringify({ type: 'error', code, message, details })
