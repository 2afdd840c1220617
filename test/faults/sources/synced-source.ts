/** A source of the server under test: its syncs, its state, and its documents. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Caller } from '../caller.ts'

export interface SyncState {
  state: string
  processed: number
  total: number
  created: number
  updated: number
  unchanged: number
  failed: number
  removed: number
  bytes: number
  errors: readonly { path: string; code: string }[]
  error: { code: string } | null
  started_at: string | null
  finished_at: string | null
}

interface SourceState {
  status: string
  last_error: string | null
  document_count: number
}

export interface SourceDocument {
  id: string
  source_path: string
  metadata: object
}

export type SyncedSource = Awaited<ReturnType<typeof createSource>>

/** Creates a source without a schedule. `timeoutMs`: maximum time until it reaches a state. */
export async function createSource(caller: Caller, fields: object, timeoutMs: number) {
  const read = async (path: string) => JSON.parse((await caller.call('GET', path, { what: 'source' })).body.toString())
  const post = (path: string) => caller.call('POST', path, { what: 'sync', ...caller.json({}) })
  const { status, body } = await caller.call('POST', '/api/sources', caller.json({ type: 'webdav', sync_interval: 0, ...fields }))
  if (status !== 201) throw new Error(`create a source: ${status} ${body}`)
  const { id } = JSON.parse(body.toString()) as { id: string }

  /** Returns whether the condition became true in time. */
  const until = async (isTrue: () => Promise<boolean>, intervalMs = 50): Promise<boolean> => {
    for (const end = performance.now() + timeoutMs; performance.now() < end; await sleep(intervalMs)) if (await isTrue()) return true
    return false
  }
  const syncState = (): Promise<SyncState> => read(`/api/sources/${id}/sync-status`)
  const start = () => until(async () => (await post(`/api/sources/${id}/sync`)).status === 202)
  const isOver = async () => ['completed', 'failed', 'cancelled'].includes((await syncState()).state)
  return {
    id,
    until,
    syncState,
    get: (): Promise<SourceState> => read(`/api/sources/${id}`),
    /** Starts a sync. Retries while the job of the last sync ends. */
    start,
    cancel: () => post(`/api/sources/${id}/cancel`),
    change: (changes: object) => caller.call('PUT', `/api/sources/${id}`, caller.json(changes)),
    isOver,
    /** Syncs and returns the result; null if the sync takes too long. */
    async sync(): Promise<SyncState | null> {
      if (!(await start())) return null
      return (await until(isOver)) ? syncState() : null
    },
    /** Returns whether the texts of all its documents are read. */
    async isRead(): Promise<boolean> {
      return (await read(`/api/documents?source_id=${id}&status=pending,processing&per_page=1`)).data.length === 0
    },
    /** Returns the first hundred documents. */
    documents: async (): Promise<SourceDocument[]> => (await read(`/api/documents?source_id=${id}&per_page=100`)).data,
  }
}
