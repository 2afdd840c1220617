/** What a backup says of itself: a head that comes first and a manifest that comes last. Fields are only ever added. */
import { z } from 'zod'

/** Goes up when an older dms could not read what a newer one writes. */
export const formatVersion = 1

/** What a backup says is not trusted: names of tables become SQL and paths, and JSON is held in memory. */
const Name = z.string().regex(/^[a-z_][a-z0-9_]{0,62}$/)
const Sha256 = z.string().regex(/^[0-9a-f]{64}$/)
const Count = z.int().min(0)
export const maxHeadBytes = 4 << 20
/** with one line for each of half a million damaged files */
export const maxManifestBytes = 64 << 20
export const maxSecretBytes = 64 << 10

const Table = z.object({ name: Name, columns: z.array(Name).max(1600) })
const Sequence = z.object({ name: Name, value: z.int(), called: z.boolean() })

/** Known before the first table is read: what a restore has to know to take the rest as a stream. */
export const Head = z.object({
  format: z.literal(formatVersion, `is not of the format ${formatVersion}, the only one that this dms reads`),
  id: z.string().regex(/^[\w-]{1,64}$/),
  created_at: z.iso.datetime(),
  /** the version of dms that made it */
  dms: z.string(),
  /** whose files these are */
  store_id: z.string(),
  /** the names of all migrations that the tables have */
  migrations: z.array(z.string()),
  /** in the order of their references: what is referred to comes first */
  tables: z.array(Table),
  sequences: z.array(Sequence),
  /** rows are in the text that does not depend on settings of the database, so that they can be compared after a restore */
  has_canonical_text: z.literal(true).optional(),
  documents: Count,
  /** false: tables only */
  has_files: z.boolean(),
  files: Count,
  /** bytes of all stored files */
  bytes: Count,
})
export type Head = z.infer<typeof Head>

/** Known once all is written: without it a backup is not one. */
export const Manifest = Head.extend({
  finished_at: z.iso.datetime(),
  /** rows of each table */
  rows: z.record(Name, Count),
  /** the list of all checksums, which `sha256sum -c` understands; and its own */
  sums: z.object({ path: z.string().regex(/^data\/[\w-]{1,64}\/SHA256SUMS$/), sha256: Sha256 }),
  /** stored files that were gone or not what they should be when the backup was made; `problem`: missing, corrupt */
  damaged: z.array(z.object({ sha256: Sha256, problem: z.enum(['missing', 'corrupt']) })),
  /** signature.ts; missing where it was made without a key */
  hmac: z.string().optional(),
})
export type Manifest = z.infer<typeof Manifest>

export const manifestPath = 'manifest.json'
export const headPath = (id: string): string => `data/${id}/head.json`
export const sumsPath = (id: string): string => `data/${id}/SHA256SUMS`
/** Tables come in pieces, each small enough to be held in memory; `part` from 1. */
export const tablePath = (id: string, table: string, part: number): string => `data/${id}/tables/${table}.${String(part).padStart(6, '0')}`
export const configPath = (id: string): string => `data/${id}/config.json`
export const secretPath = (id: string, name: string): string => `data/${id}/secrets/${name}`
export const filePath = (sha256: string): string => `files/${sha256.slice(0, 2)}/${sha256.slice(2, 4)}/${sha256}`

/** One line of SHA256SUMS; that of a stored file is always as long as any other. */
export const sumLine = (sha256: string, path: string): string => `${sha256}  ${path}\n`

/** Parses one line of SHA256SUMS, without its end. */
export const readSumLine = (line: string): { sha256: string; path: string } => ({ sha256: line.slice(0, 64), path: line.slice(66) })

/** `id`: of the backup that the entry belongs to */
export type Entry =
  | { kind: 'manifest' }
  | { kind: 'head' | 'sums' | 'config'; id: string }
  | { kind: 'table'; id: string; table: string }
  | { kind: 'secret'; id: string; name: string }
  | { kind: 'file'; sha256: string }

/** What an entry of a backup is, by its path; null: nothing that this dms knows. No other path is ever opened or made. */
export function entryAt(path: string): Entry | null {
  if (path === manifestPath) return { kind: 'manifest' }
  const sha256 = /^files\/[0-9a-f]{2}\/[0-9a-f]{2}\/([0-9a-f]{64})$/.exec(path)?.[1]
  if (sha256) return path === filePath(sha256) ? { kind: 'file', sha256 } : null
  const [, id = '', rest = ''] = /^data\/([\w-]{1,64})\/(.+)$/.exec(path) ?? []
  if (rest === 'head.json') return { kind: 'head', id }
  if (rest === 'SHA256SUMS') return { kind: 'sums', id }
  if (rest === 'config.json') return { kind: 'config', id }
  const table = /^tables\/([a-z_][a-z0-9_]{0,62})\.\d{6,9}$/.exec(rest)?.[1]
  if (table) return { kind: 'table', id, table }
  const name = /^secrets\/(\w+)$/.exec(rest)?.[1]
  return name ? { kind: 'secret', id, name } : null
}

/** The backup is not whole, or not what it says. */
export class BackupDamaged extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'BackupDamaged'
  }
}

/** Reads a head or a manifest; throws BackupDamaged. */
export function parsed<T>(schema: z.ZodType<T>, path: string, text: string): T {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new BackupDamaged(`${path} is not JSON`)
  }
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const [issue] = result.error.issues
  throw new BackupDamaged(`${path}: ${issue?.path.join('.')} ${issue?.message}`)
}
