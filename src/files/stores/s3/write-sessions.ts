/**
 * Write sessions. Each file belongs to a short session of its process; the id of the session begins the generation of the file. A marker of the
 * session exists in the bucket until all its files are confirmed. After a crash the marker tells which files may be uncommitted. Files share a marker
 * to save requests.
 */
import { randomBytes } from 'node:crypto'
import { hasEnded, processIdentity } from '../../../processes.ts'
import { type Bucket, textBody } from './bucket.ts'
import { endsSoon } from './outage.ts'

export interface WriteSession {
  readonly id: string
  /** Keeps the marker of the session. A later cleanup then looks for remains of its uploads in the bucket. */
  keepMarker(): void
  /** Ends the use by one file, which is committed or removed. */
  release(): Promise<void>
  /** Ends the use by one file, which stays uncommitted. */
  abandon(): Promise<void>
}

export interface WriteSessions {
  begin(): Promise<WriteSession>
  /** Lists sessions with uncommitted files: sessions of dead processes and sessions with a failed upload. */
  listAbandoned(): Promise<string[]>
  remove(id: string): Promise<void>
  close(): Promise<void>
}

const maxFiles = 200
const maxAgeMs = 60_000
/** Time after its last file at which a session ends. */
const idleMs = 5000
const heartbeatMs = 3600 * 1000
/** Age of the marker after which a process of another pid namespace counts as dead. */
const staleMs = 24 * 3600 * 1000

interface Session {
  readonly id: string
  readonly startedAtMs: number
  readonly marked: Promise<void>
  openFiles: number
  files: number
  hasUncommitted: boolean
}

/** Opens the sessions. `check` throws if the bucket belongs to another archive: files in it would be lost. */
export function openWriteSessions(bucket: Bucket, prefix: string, check: () => Promise<unknown>): WriteSessions {
  const running = new Set<Session>()
  let current: Session | null = null
  let idleTimer: NodeJS.Timeout | undefined
  const write = (id: string, owner: string) => bucket.put(`${prefix}${id}`, textBody(owner))
  const remove = (id: string) => bucket.remove(`${prefix}${id}`)

  const heartbeat = setInterval(() => {
    for (const { id } of running) write(id, processId).catch(() => {})
  }, heartbeatMs).unref()

  const start = (): Session => {
    const id = randomBytes(6).toString('hex')
    const session = {
      id,
      startedAtMs: performance.now(),
      marked: check().then(() => write(id, processId)),
      openFiles: 0,
      files: 0,
      hasUncommitted: false,
    }
    running.add(session)
    return session
  }
  /** Takes no more files into the current session. */
  const rotate = async (): Promise<void> => {
    const session = current
    current = null
    if (session?.openFiles === 0) await finish(session)
  }
  const finish = async (session: Session): Promise<void> => {
    if (!running.delete(session)) return
    // A marker that stays has no consequence but a search for its files.
    await endsSoon(session.hasUncommitted ? write(session.id, '') : remove(session.id))
  }

  return {
    async begin() {
      clearTimeout(idleTimer)
      if (current && (current.files >= maxFiles || performance.now() - current.startedAtMs > maxAgeMs)) await rotate()
      current ??= start()
      const session = current
      session.files++
      session.openFiles++
      const release = async () => {
        session.openFiles--
        if (session.openFiles > 0) return
        if (current !== session) return finish(session)
        clearTimeout(idleTimer)
        idleTimer = setTimeout(rotate, idleMs).unref()
      }
      const keepMarker = () => {
        session.hasUncommitted = true
      }
      const abandon = () => {
        keepMarker()
        if (current === session) current = null
        return release()
      }
      await session.marked.catch(async (error) => {
        if (current === session) current = null
        await release()
        throw error
      })
      return { id: session.id, keepMarker, release, abandon }
    },
    async listAbandoned() {
      const abandoned: string[] = []
      for await (const { key, modifiedAtMs } of bucket.list(prefix)) {
        const id = key.slice(prefix.length)
        if ([...running].some((session) => session.id === id)) continue
        const owner = (await bucket.exchange({ method: 'GET', key }).catch(() => null)) ?? processId
        if (owner === '' || hasEnded(owner.split('\n')) || bucket.serverTimeMs() - modifiedAtMs > staleMs) abandoned.push(id)
      }
      return abandoned
    },
    remove,
    async close() {
      clearInterval(heartbeat)
      clearTimeout(idleTimer)
      await rotate()
    },
  }
}

const processId = processIdentity.join('\n')
