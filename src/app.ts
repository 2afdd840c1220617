/** The dependencies of every part of dms. open-app.ts creates them once; there are no globals. */
import type { Config } from './config/schema.ts'
import type { Database, Db } from './db/pool.ts'
import type { Log } from './log/log.ts'
import type { DocumentReader } from './ports/document-reader.ts'
import type { FileStore, Stores } from './ports/file-store.ts'
import type { EncryptedTokens, IdentityProvider, PasswordHasher, Tokens } from './ports/identity-provider.ts'
import type { Mailer } from './ports/mailer.ts'
import type { InstalledOcr } from './ports/ocr-engine.ts'
import type { SearchEngine } from './ports/search-engine.ts'

export interface App {
  readonly config: Config
  readonly log: Log
  readonly db: Db
  /** pipelined connection for short reads, without transactions */
  readonly reads: Db
  /** the parts of the app that differ for each replica of database.read_url */
  readonly replicas: readonly (Pick<App, 'db' | 'reads' | 'database' | 'search'> & { readonly host: string })[]
  /** opens single connections, for LISTEN and locks */
  readonly database: Database
  /** reads from all document stores of this archive, and writes to the primary */
  readonly files: FileStore
  readonly stores: Stores
  readonly search: SearchEngine
  /** null: OCR is disabled */
  readonly ocr: InstalledOcr | null
  /** reader for jobs, one file per core */
  readonly reader: DocumentReader
  /** reader for interactive requests */
  readonly previewer: DocumentReader
  /** null: no mail server is configured */
  readonly mailer: Mailer | null
  /** null: users sign in by password */
  readonly identities: IdentityProvider | null
  readonly tokens: Tokens
  readonly encryptedTokens: EncryptedTokens
  readonly passwords: PasswordHasher
  /** Time for display and records. Limits and expiries use the database clock (db/clock.ts). */
  now(): Date
  /** Milliseconds of a monotonic clock, for durations within this process. */
  monotonicMs(): number
}
