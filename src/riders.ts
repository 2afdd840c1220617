/** Waiting jobs of a kind that are done together with one that was claimed: a hundred small changes cost little more than one. */
import { sql } from 'kysely'
import type { Db, Trx } from './db/db.ts'
import type { Job, Kind, Payloads } from './jobs.ts'

export interface Rider<K extends Kind> {
  readonly id: string
  readonly payload: Payloads[K]
  /** tells whether it was asked for once more meanwhile */
  readonly version: string
}

/** Jobs of the same kind that could be claimed now, at most `most`. They are not claimed: others may do them too. */
export async function riders<K extends Kind>(db: Db, job: Job<K>, most: number): Promise<Rider<K>[]> {
  const { rows } = await sql<Rider<K>>`
    select id, payload, xmin::text as version from jobs
    where queue = ${job.queue} and kind = ${job.kind} and status = 'pending' and run_at <= now()
    order by priority desc, run_at, id limit ${most}`.execute(db)
  return rows
}

/** Takes away those that nobody has claimed and nobody has asked for again since they were read: that request came with a change that was not seen. */
export async function finishRiders(trx: Trx, done: readonly Rider<Kind>[]): Promise<void> {
  await sql`
    delete from jobs using unnest(${done.map(({ id }) => id)}::uuid[], ${done.map(({ version }) => version)}::text[]) as done (id, version)
    where jobs.id = done.id and jobs.status = 'pending' and jobs.xmin::text = done.version`.execute(trx)
}
