/** Restores a backup into a throw-away place, compares what is there with what was backed up, and takes it back: a backup that was never restored proves nothing. */
import { createHash } from 'node:crypto'
import type { PoolClient } from 'pg'
import { to as copyTo } from 'pg-copy-streams'
import { withLock } from '../db/lock.ts'
import * as migrations from '../db/migrate.ts'
import { storedFiles } from '../documents/stored-files.ts'
import type { Places } from '../open-app.ts'
import type { FileStore } from '../ports/file-store.ts'
import { type Bytes, skip } from './bytes.ts'
import { quoted, setCanonicalText } from './create/snapshot.ts'
import type { Head } from './manifest.ts'
import { type FillOptions, fill, type Inspector, type Restored } from './restore/fill.ts'
import { refuseFull } from './restore/restore.ts'
import { openRowDigests } from './restore/row-digest.ts'
import type { Source } from './source.ts'

export interface RehearsalProblem {
  path: string
  problem: string
}

export interface Rehearsal extends Pick<Restored, 'manifest' | 'lost'> {
  /** rows that were read back */
  rows: number
  /** stored files that were read back */
  files: number
  /** false: only counted, as the backup is of a dms that wrote rows in the time zone of its database */
  hasComparedRows: boolean
  problems: RehearsalProblem[]
}

export interface RehearseOptions extends Omit<FillOptions, 'skipsDamaged' | 'keepsSources' | 'inspector'> {
  lockTimeout: number
}

/**
 * Fills the database and the store of `scratch`, which have to be empty; then the transaction is rolled back. The caller removes the folder.
 * Throws BackupDamaged where the backup cannot be restored, AppError CONFLICT, NewerSchema, Busy.
 */
export function rehearse(scratch: Places, source: Source, options: RehearseOptions): Promise<Rehearsal> {
  return scratch.database.asOwner((owner) => {
    const places = { ...scratch, database: { ...scratch.database, ...owner } }
    return withLock(places.database, 'restore', options.lockTimeout, () =>
      withLock(places.database, migrations.migrateLock, options.lockTimeout, async () => {
        await refuseFull(places)
        const inspector = openInspector()
        const { manifest, lost } = await fill(places, source, generation, null, {
          ...options,
          skipsDamaged: false,
          keepsSources: false,
          inspector,
        })
        return { manifest, lost, ...inspector.result() }
      }),
    )
  })
}

/** Of the addresses of a rehearsal; its files never leave their folder. */
const generation = 'rehearsal'

function openInspector(): Inspector & { result(): Omit<Rehearsal, 'manifest' | 'lost'> } {
  const read = openRowDigests()
  const problems: RehearsalProblem[] = []
  let [rows, files] = [0, 0]
  let hasComparedRows = false
  return {
    pass: (table, bytes) => read.pass(table, bytes),
    async afterRows(client, head) {
      for (const table of head.tables) {
        const given = read.digests.get(table.name) ?? { rows: 0, sum: 0n }
        const there = await digestOf(client, table)
        if (!there) continue
        rows += there.rows
        const isSame = there.rows === given.rows && (there.sum === given.sum || !head.has_canonical_text)
        if (!isSame) problems.push({ path: table.name, problem: 'rows differ from those of the backup after they were restored' })
      }
      hasComparedRows = head.has_canonical_text === true
    },
    async afterFiles(trx, store, signal) {
      for await (const { sha256, size, address } of storedFiles(trx)) {
        signal.throwIfAborted()
        if ((await store.size(address)) !== size) continue
        files++
        if ((await hashOf(store, address, size)) !== sha256)
          problems.push({ path: sha256, problem: 'the stored file was read back with other bytes' })
      }
    },
    result: () => ({ rows, files, hasComparedRows, problems }),
  }
}

/** null: dms has no such table. */
async function digestOf(client: PoolClient, { name, columns }: Head['tables'][number]) {
  const { rows } = await client.query<{ found: boolean }>('select to_regclass($1) is not null as found', [quoted(name)])
  if (!rows[0]?.found || columns.length === 0) return null
  const there = openRowDigests()
  await setCanonicalText(client)
  await skip(there.pass(name, client.query(copyTo(`copy ${quoted(name)} (${columns.map(quoted).join(', ')}) to stdout`)) as Bytes))
  return there.digests.get(name) ?? { rows: 0, sum: 0n }
}

async function hashOf(store: FileStore, address: string, size: number): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of await store.read(address, size > 0 ? { start: 0, end: size - 1 } : undefined)) hash.update(chunk)
  return hash.digest('hex')
}
