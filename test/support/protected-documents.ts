/** Documents under retention or hold, and whether row, versions and bytes of each are still there. */
import { createHash, randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import type { App } from '../../src/app.ts'
import type { Db } from '../../src/db/pool.ts'
import { addressOf } from '../../src/documents/stored-files.ts'

export const protections = ['retention', 'hold'] as const
export type Protection = (typeof protections)[number]

interface Version {
  document_id: string
  number: number
  sha256: string
  size: number
}

/** Starts without documents. */
export function trackProtectedDocuments(app: App) {
  const tracked = new Map<string, { how: Protection; until: Date | null; versions: Version[] }>()

  const versionsOf = async (db: Db, ids: readonly string[]): Promise<Version[]> =>
    (
      await sql<Version>`
      select document_id, number, version.sha256, version.size from document_versions version join documents on documents.id = document_id
      join stored_files file on file.sha256 = version.sha256 where document_id = any(${ids}::uuid[]) order by document_id, number`.execute(
        db,
      )
    ).rows

  /** Returns the documents that lost their row, a version, or a part of their retention, with what they had. Reads by `db`, which may be a transaction. */
  const listDestroyed = async (db: Db = app.db): Promise<string[]> => {
    const ids = [...tracked.keys()]
    const found = Map.groupBy(await versionsOf(db, ids), ({ document_id }) => document_id)
    const { rows } = await sql<{ id: string; retain_until: Date | null }>`
      select id, retain_until from documents where id = any(${ids}::uuid[])`.execute(db)
    const ends = new Map(rows.map(({ id, retain_until }) => [id, retain_until]))
    return Array.from(tracked, ([id, { how, until, versions }]) => {
      const left = new Set(found.get(id)?.map((version) => JSON.stringify(version)))
      const isShortened = until !== null && (ends.get(id) ?? new Date(0)) < until
      return versions.every((version) => left.has(JSON.stringify(version))) && !isShortened ? [] : [`${id} under ${how}`]
    }).flat()
  }

  return {
    ids: () => [...tracked.keys()],
    /** Puts a document under retention or hold by plain SQL, which other tests than those of the API may use. */
    async protect(id: string, how: Protection): Promise<void> {
      const until = how === 'retention' ? new Date(Date.now() + 3650 * 86_400_000) : null
      if (until) await sql`update documents set retain_until = ${until} where id = ${id}`.execute(app.db)
      else {
        const name = `hold ${randomUUID()}`
        await sql`
          with hold as (insert into holds (name, name_key) values (${name}, ${name}) returning id)
          insert into hold_documents (hold_id, document_id) select id, ${id} from hold`.execute(app.db)
      }
      tracked.set(id, { how, until, versions: await versionsOf(app.db, [id]) })
    },
    listDestroyed,
    /** Returns what listDestroyed() returns, and the documents whose bytes are missing or differ. */
    async listDamaged(): Promise<string[]> {
      const damaged = await listDestroyed()
      for (const [id, { how, versions }] of tracked)
        for (const { number, sha256 } of versions) {
          const hash = createHash('sha256')
          const read = async () => {
            for await (const chunk of await app.files.read(await addressOf(app.db, sha256))) hash.update(chunk)
          }
          await read().catch(() => {})
          if (hash.digest('hex') !== sha256) damaged.push(`bytes of version ${number} of ${id} under ${how}`)
        }
      return damaged
    },
  }
}
