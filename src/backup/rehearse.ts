/** Restores a backup into a temporary database and store, compares rows and files with the backup, and rolls back. */
import { hash } from 'node:crypto'
import type { PoolClient } from 'pg'
import { to as copyTo } from 'pg-copy-streams'
import { listStoredFiles } from '../documents/stored-files.ts'
import { readSum } from '../files/stores/secondary.ts'
import type { Installation } from '../open-app.ts'
import type { BackupSource } from './backup-source.ts'
import { type Bytes, drain } from './byte-streams.ts'
import { quoteIdentifier, setCanonicalOutput } from './create/snapshot.ts'
import type { Head } from './manifest.ts'
import { type LoadInspector, type LoadOptions, loadBackup, type RestoreResult } from './restore/load-backup.ts'
import { assertEmpty, withRestoreLocks } from './restore/restore.ts'

export interface RehearsalProblem {
  path: string
  problem: string
}

export interface RehearsalResult extends Pick<RestoreResult, 'manifest' | 'lost'> {
  /** rows read back from the database */
  rows: number
  /** files read back from the store */
  files: number
  /** false: rows were only counted. Older backups depend on the time zone of their database. */
  hasComparedRows: boolean
  problems: RehearsalProblem[]
}

export interface RehearseOptions extends Omit<LoadOptions, 'skipsDamaged' | 'keepsSources' | 'inspector'> {
  lockTimeoutMs: number
}

/**
 * Restores into the empty database and store of `scratch`, then rolls the transaction back. The caller removes the store's directory.
 * Throws BackupDamaged, AppError CONFLICT, NewerSchema or Busy.
 */
export function rehearseRestore(scratch: Installation, source: BackupSource, options: RehearseOptions): Promise<RehearsalResult> {
  return scratch.database.asOwner((owner) => {
    const installation = { ...scratch, database: { ...scratch.database, ...owner } }
    const rehearse = async (): Promise<RehearsalResult> => {
      await assertEmpty(installation)
      const inspector = createComparison()
      const { manifest, lost } = await loadBackup(installation, source, generation, null, {
        ...options,
        skipsDamaged: false,
        keepsSources: false,
        inspector,
      })
      return { manifest, lost, ...inspector.result() }
    }
    return withRestoreLocks(installation.database, options, rehearse)
  })
}

/** Generation in the addresses of files. These files never leave the temporary store. */
const generation = 'rehearsal'

function createComparison(): LoadInspector & { result(): Omit<RehearsalResult, 'manifest' | 'lost'> } {
  const digestsOfBackup = createRowDigests()
  const problems: RehearsalProblem[] = []
  let [rows, files] = [0, 0]
  let hasComparedRows = false
  return {
    teeRows: (table, bytes) => digestsOfBackup.pass(table, bytes),
    async afterRows(client, head) {
      for (const table of head.tables) {
        const expected = digestsOfBackup.digests.get(table.name) ?? { rows: 0, sum: 0n }
        const stored = await digestTable(client, table)
        if (!stored) continue
        rows += stored.rows
        const isSame = stored.rows === expected.rows && (stored.sum === expected.sum || !head.has_canonical_text)
        if (!isSame) problems.push({ path: table.name, problem: 'rows differ from those of the backup after they were restored' })
      }
      hasComparedRows = head.has_canonical_text === true
    },
    async afterFiles(trx, store, signal) {
      for await (const { sha256, size, address } of listStoredFiles(trx)) {
        signal.throwIfAborted()
        if ((await store.size(address)) !== size) continue
        files++
        if ((await readSum(store, address)) !== sha256)
          problems.push({ path: sha256, problem: 'the stored file was read back with other bytes' })
      }
    },
    result: () => ({ rows, files, hasComparedRows, problems }),
  }
}

/** Returns null if the database has no such table. */
async function digestTable(client: PoolClient, { name, columns }: Head['tables'][number]) {
  const { rows } = await client.query<{ found: boolean }>('select to_regclass($1) is not null as found', [quoteIdentifier(name)])
  if (!rows[0]?.found || columns.length === 0) return null
  const stored = createRowDigests()
  await setCanonicalOutput(client)
  await drain(
    stored.pass(
      name,
      client.query(copyTo(`copy (select ${columns.map(quoteIdentifier).join(', ')} from ${quoteIdentifier(name)}) to stdout`)) as Bytes,
    ),
  )
  return stored.digests.get(name) ?? { rows: 0, sum: 0n }
}

interface RowDigest {
  rows: number
  /** sum of the first 64 bits of the SHA-256 of each row, modulo 2^64 */
  sum: bigint
}

const newline = 10

/** Digests the rows of tables, in COPY text format, independent of their order. Passes the bytes on. */
function createRowDigests() {
  const digests = new Map<string, RowDigest>()
  /** incomplete last row of the previous chunk, by table */
  const rests = new Map<string, Buffer>()
  const addRow = (digest: RowDigest, row: Uint8Array) => {
    digest.rows++
    digest.sum = BigInt.asUintN(64, digest.sum + hash('sha256', row, 'buffer').readBigUInt64BE())
  }
  const add = (table: string, chunk: Uint8Array) => {
    const digest = digests.get(table) ?? { rows: 0, sum: 0n }
    digests.set(table, digest)
    const rest = rests.get(table)
    const bytes = rest ? Buffer.concat([rest, chunk]) : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length)
    let from = 0
    // COPY text format escapes line ends within values.
    for (let to = bytes.indexOf(newline); to >= 0; to = bytes.indexOf(newline, from)) {
      addRow(digest, bytes.subarray(from, to))
      from = to + 1
    }
    rests.set(table, Buffer.from(bytes.subarray(from)))
  }
  return {
    digests,
    async *pass(table: string, source: Bytes): AsyncGenerator<Uint8Array> {
      for await (const chunk of source) {
        add(table, chunk)
        yield chunk
      }
    },
  }
}
