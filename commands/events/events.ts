import { parseCount } from '../../src/cli/arguments/flag-values.ts'
import { parseId } from '../../src/cli/arguments/ids.ts'
import { findSourceId } from '../../src/cli/arguments/sources.ts'
import { formatCell } from '../../src/cli/output/csv.ts'
import { group, manual } from '../../src/cli/output/manual.ts'
import { pickFields, rejectOutputFlags } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { Failure, usage } from '../../src/cli/runtime/exit.ts'
import { throwIfTimedOut } from '../../src/cli/runtime/wait.ts'
import { setWatchExit } from '../../src/cli/runtime/watch.ts'
import type { EventMessage } from '../../src/client/event-stream.ts'
import type { EventType } from '../../src/events.ts'
import { isId } from '../../src/id.ts'
import { escapeControls } from '../../src/log/escape.ts'

interface Flags {
  event?: string
  document?: string
  source?: string
  until?: string
  count?: string
  replay?: boolean
  reconnect: boolean
}

/** The names that --event takes. `notification` is a synonym of `notifications`. */
const eventNames = Object.keys({
  document_created: true,
  document_updated: true,
  document_trashed: true,
  document_restored: true,
  document_purged: true,
  version_added: true,
  rendition_updated: true,
  notifications: true,
  ocr_progress: true,
  queue_status: true,
  sync_progress: true,
} satisfies Record<Exclude<EventType, 'notification'> | 'notifications', true>)

export const events = (cli: Cli) => group('events', 'Follow events of the server', [tail(cli)])

const tail = (cli: Cli) =>
  manual('tail', {
    summary: 'Print events as they happen',
    examples: [
      ['events tail', 'all events, until Ctrl-C'],
      ['events tail --event document_created | jq -r --unbuffered .document_id', 'JSON Lines, for a script'],
      ['events tail --document 0192f0c1-… --until ocr_progress:status=completed --replay --timeout 10m -q', 'until OCR has finished'],
    ],
    notes: [
      `Events: ${eventNames.join(', ')}.`,
      'A lost connection is reopened, and missed events are printed (the server keeps ten minutes).',
      'Users receive their own events; admins receive all. Notifications are personal. On the server, without --url, events are those of an admin or of the user of --as, and no running server is needed.',
    ],
    exits:
      '0 --until or --count reached; without them: Ctrl-C (else 130) · 4 not signed in · 8 --timeout passed first · 69 connection lost · 75 too many connections · 143 SIGTERM',
  })
    .option('--event <names>', 'only these events, separated by commas')
    .option('--document <id>', 'only events of this document')
    .option('--source <source>', 'only events of this source (name or id)')
    .option('--until <type[:field=value]>', 'exit after this event')
    .option('--count <n>', 'exit after this many events')
    .option('--replay', 'start with the events of the last ten minutes')
    .option('--no-reconnect', 'exit when the connection is lost')
    .action(async (flags: Flags) => {
      const names = flags.event?.split(',').map((name) => name.trim()) ?? eventNames
      const unknown = names.filter((name) => !eventNames.includes(name) && name !== 'notification')
      if (unknown.length > 0) throw usage(`--event: unknown event ${unknown.join(', ')}; known events: ${eventNames.join(', ')}`)
      const isLast = parseEnd(flags, names)
      rejectOutputFlags({ ...cli.options, fields: null }, 'events are JSON Lines')
      const subject = await resolveSubject(cli, flags)
      const signal = cli.serviceSignal
      if (cli.options.printCurl) throw usage('events tail cannot use --print-curl: curl has no WebSocket client')
      const { openLocalEvents, openRemoteEvents } = await import('../../src/cli/remote/event-transports.ts')
      const { target } = cli
      const transport = await (target.url === null ? openLocalEvents(cli) : openRemoteEvents(cli, target))
      const { eventStream } = await import('../../src/client/event-stream.ts')
      const onReconnect = (reason: string, seconds: number) => {
        if (!flags.reconnect) throw new Failure('UNAVAILABLE', `connection lost: ${reason}`)
        cli.note(`connection lost: ${reason}; reconnecting in ${seconds} s`)
      }
      const stream = eventStream({ ...transport, events: names, isReplay: flags.replay === true, signal, onReconnect })
      try {
        for await (const event of stream) {
          if (!isAbout(event, subject)) continue
          printEvent(cli, event)
          if (isLast(event)) return
        }
      } catch (error) {
        if ((error as { status?: unknown }).status === 429) throw new Failure('BUSY', (error as Error).message)
        throw error
      }
      const isAwaited = flags.until !== undefined || flags.count !== undefined
      if (isAwaited) throwIfTimedOut(cli, 'no matching event within --timeout')
      setWatchExit(cli, signal, isAwaited)
    })

/** Returns the ids of --document and --source, which may be a name. Throws Failure NOT_FOUND. */
async function resolveSubject(cli: Cli, { document, source }: Flags): Promise<{ document?: string; source?: string }> {
  return {
    ...(document === undefined ? {} : { document: parseId(document, 'document') }),
    ...(source === undefined ? {} : { source: isId(source) ? source.toLowerCase() : await findSourceId(await cli.client(), source) }),
  }
}

const isAbout = ({ data }: EventMessage, { document, source }: { document?: string; source?: string }): boolean =>
  (document === undefined || data.document_id === document) && (source === undefined || data.source_id === source || data.source === source)

/** Returns a function that recognises the last event, after --until or --count. Throws Failure USAGE. */
function parseEnd({ until, count }: Flags, names: readonly string[]): (event: EventMessage) => boolean {
  const [, type, field, value] = /^(\w+)(?::(\w+)=(.*))?$/.exec(until ?? '') ?? []
  if (until !== undefined && type === undefined)
    throw usage(`--until "${until}" is not TYPE or TYPE:FIELD=VALUE, e.g. ocr_progress:status=completed`)
  if (type !== undefined && !names.map(subscriptionOf).includes(subscriptionOf(type)))
    throw usage(`--until ${until} never matches: the selected events are ${names.join(', ')}`)
  let remaining = count === undefined ? Number.POSITIVE_INFINITY : parseCount('--count', count)
  return (event) => {
    remaining--
    return (
      remaining === 0 ||
      (type !== undefined &&
        subscriptionOf(event.type) === subscriptionOf(type) &&
        (field === undefined || formatCell(event.data[field]) === value))
    )
  }
}

/** Returns the subscription of an event type: events `notification` belong to `notifications`. */
const subscriptionOf = (type: string): string => (type === 'notification' ? 'notifications' : type)

function printEvent(cli: Cli, event: EventMessage): void {
  const received_at = new Date().toISOString()
  const { isHuman, fields: names } = cli.options
  if (!isHuman || names !== null) {
    cli.write(`${JSON.stringify(pickFields({ ...event, received_at }, names))}\n`)
    return
  }
  const { document_id, source_id, id, ...rest } = event.data
  const subject = document_id ?? source_id ?? id ?? ''
  const fields = Object.entries(rest).map(([name, value]) => `${name}=${formatCell(value)}`)
  cli.write(`${escapeControls([event.timestamp.slice(11, 19), event.type.padEnd(16), subject, ...fields].join('  '))}\n`)
}
