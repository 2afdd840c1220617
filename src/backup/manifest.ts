/** Format of a backup: paths, the head (first entry) and the manifest (last entry). Later versions only add fields. */
import { z } from 'zod'
import { describeIssue } from '../http/issue-text.ts'
import { tryParseJson } from '../json.ts'
import type { Fix } from '../log/fix.ts'

/** Increased when older versions of dms cannot read the format. */
export const formatVersion = 1

/** A backup is untrusted input: table names become SQL and paths, and JSON is held in memory. */
const Name = z.string().regex(/^[a-z_][a-z0-9_]{0,62}$/)
const Sha256 = z.string().regex(/^[0-9a-f]{64}$/)
const Count = z.int().min(0)
export const maxHeadBytes = 4 << 20
/** Has room for half a million damaged files. */
export const maxManifestBytes = 64 << 20
export const maxSecretBytes = 64 << 10

const Table = z.object({ name: Name, columns: z.array(Name).max(1600) })
const Sequence = z.object({ name: Name, value: z.int(), called: z.boolean() })

/** The first entry of a backup. A restore needs it to read the rest as a stream. */
export const Head = z.object({
  format: z.literal(formatVersion, `is not of the format ${formatVersion}, the only one that this dms reads`),
  id: z.string().regex(/^[\w-]{1,64}$/),
  created_at: z.iso.datetime(),
  /** version of dms that made the backup */
  dms: z.string(),
  /** id of the document store */
  store_id: z.string(),
  /** names of all applied migrations */
  migrations: z.array(z.string()),
  /** in foreign-key order: referenced tables first */
  tables: z.array(Table),
  sequences: z.array(Sequence),
  /** rows are in a text form independent of database settings, so a restore can compare them */
  has_canonical_text: z.literal(true).optional(),
  /** documents, including the trash */
  documents: Count,
  /** missing in backups of releases without versions: each document has one version */
  versions: Count.optional(),
  /** documents in the trash */
  trashed: Count.optional(),
  /** false: the backup has tables only */
  has_files: z.boolean(),
  files: Count,
  /** total size of stored files */
  bytes: Count,
})
export type Head = z.infer<typeof Head>

/** Returns the numbers of documents and versions in a backup. */
export const documentCounts = ({ documents, versions = documents, trashed = 0 }: Head) => ({ documents, versions, trashed })

/** Returns the counts as text, such as `7 documents (2 in the trash, 9 versions)`. */
export function describeDocuments(head: Head): string {
  const { documents, versions, trashed } = documentCounts(head)
  const parts = [...(trashed > 0 ? [`${trashed} in the trash`] : []), ...(versions > documents ? [`${versions} versions`] : [])]
  return `${documents} documents${parts.length > 0 ? ` (${parts.join(', ')})` : ''}`
}

/** Last entry. A backup without it is incomplete. */
export const Manifest = Head.extend({
  finished_at: z.iso.datetime(),
  /** row count by table */
  rows: z.record(Name, Count),
  /** path and checksum of SHA256SUMS (format of `sha256sum -c`) */
  sums: z.object({ path: z.string().regex(/^data\/[\w-]{1,64}\/SHA256SUMS$/), sha256: Sha256 }),
  /** stored files that were missing or corrupt when the backup was made */
  damaged: z.array(z.object({ sha256: Sha256, problem: z.enum(['missing', 'corrupt']) })),
  /** see signature.ts; absent in an unsigned backup */
  hmac: z.string().optional(),
})
export type Manifest = z.infer<typeof Manifest>

export const manifestPath = 'manifest.json'
/** Copy of the manifest in a folder. */
export const manifestCopyPath = (id: string): string => `data/${id}/manifest.json`
export const headPath = (id: string): string => `data/${id}/head.json`
export const checksumsPath = (id: string): string => `data/${id}/SHA256SUMS`
/** Tables are split into parts that fit in memory; `part` counts from 1. */
export const tablePath = (id: string, table: string, part: number): string => `data/${id}/tables/${table}.${String(part).padStart(6, '0')}`
export const configPath = (id: string): string => `data/${id}/config.json`
export const secretPath = (id: string, name: string): string => `data/${id}/secrets/${name}`
export const filePath = (sha256: string): string => `files/${sha256.slice(0, 2)}/${sha256.slice(2, 4)}/${sha256}`

/** Returns a line of SHA256SUMS. The lines of stored files all have the same length. */
export const formatChecksumLine = (sha256: string, path: string): string => `${sha256}  ${path}\n`

/** Parses a line of SHA256SUMS without its line end. */
export const parseChecksumLine = (line: string): { sha256: string; path: string } => ({ sha256: line.slice(0, 64), path: line.slice(66) })

/** `id` is the id of the backup */
export type Entry =
  | { kind: 'manifest' }
  | { kind: 'head' | 'sums' | 'config'; id: string }
  | { kind: 'table'; id: string; table: string }
  | { kind: 'secret'; id: string; name: string }
  | { kind: 'file'; sha256: string }

/** Parses the path of an entry. Returns null for unknown paths, which are never opened or created. */
export function parseEntryPath(path: string): Entry | null {
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

/** The backup is truncated, corrupt or not signed correctly. */
export class BackupDamaged extends Error {
  /** command or option that helps */
  readonly fix: Fix | undefined

  constructor(message: string, fix?: Fix) {
    super(message)
    this.name = 'BackupDamaged'
    this.fix = fix
  }
}

/** Parses JSON with a schema. Throws BackupDamaged. */
export function parseJson<T>(schema: z.ZodType<T>, path: string, text: string): T {
  const value = tryParseJson(text)
  if (value === undefined) throw new BackupDamaged(`${path} is not JSON`)
  const result = schema.safeParse(value, { error: describeIssue })
  if (result.success) return result.data
  const [issue] = result.error.issues
  throw new BackupDamaged(`${path}: ${issue?.path.join('.')} ${issue?.message}`)
}
