/** What is said over a WebSocket, in both directions. */
import { z } from 'zod'
import { AppError, type Code, codes } from '../../errors.ts'
import type { EventType } from '../../events.ts'
import { parseInput } from '../../http/input.ts'
import type { LiveEvent } from './event-feed.ts'

const names = {
  document_created: 'document_created',
  document_updated: 'document_updated',
  notification: 'notification',
  notifications: 'notification',
  ocr_progress: 'ocr_progress',
  queue_status: 'queue_status',
  sync_progress: 'sync_progress',
} as const satisfies Record<EventType | 'notifications', EventType>

/** A type of events as a client calls it. */
export type EventName = keyof typeof names

export const typeOf = (name: EventName): EventType => names[name]

const EventNames = z.array(z.enum(Object.keys(names) as EventName[])).max(100)

const ClientMessage = z.discriminatedUnion('type', [
  z.object({ type: z.literal('auth'), token: z.string() }),
  z.object({ type: z.literal('subscribe'), events: EventNames, since: z.int().nonnegative().nullish() }),
  z.object({ type: z.literal('unsubscribe'), events: EventNames }),
])

export type Said = z.infer<typeof ClientMessage>

/** What a client says; null stands for bytes that are no text. Throws VALIDATION_ERROR. */
export function parseMessage(text: string | null): Said {
  return parseInput(ClientMessage, parseJson(text))
}

function parseJson(text: string | null): unknown {
  try {
    return JSON.parse(text ?? '')
  } catch {
    throw new AppError('VALIDATION_ERROR', {}, 'Messages are JSON objects in text frames.')
  }
}

/** The message of an event: its data as they are, and flat beside the type, but for what they call `type` themselves. */
export function renderEvent({ position, type, data, at }: LiveEvent): string {
  const { type: _inside, ...flat } = data
  return JSON.stringify({ type, ...flat, data, timestamp: at.toISOString(), seq: position })
}

/** The message of a failure. */
export const renderError = (code: Code, message: string = codes[code][1], details: Record<string, unknown> = {}): string =>
  JSON.stringify({ type: 'error', code, message, details })
