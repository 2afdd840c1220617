/** What every part of dms is handed: made once, by open-app.ts; never reached for globally. */
import type { Config } from './config/schema.ts'
import type { Database, Db } from './db/pool.ts'
import type { Log } from './log/log.ts'
import type { DocumentReader } from './ports/document-reader.ts'
import type { FileStore } from './ports/file-store.ts'
import type { EncryptedTokens, IdentityProvider, PasswordHasher, Tokens } from './ports/identity-provider.ts'
import type { Mailer } from './ports/mailer.ts'
import type { OcrSetup } from './ports/ocr-engine.ts'
import type { SearchEngine } from './ports/search-engine.ts'

export interface App {
  readonly config: Config
  readonly log: Log
  readonly db: Db
  /** the same database for short reads on their own: fast, no transactions */
  readonly reads: Db
  /** for what needs a connection of its own: LISTEN, locks */
  readonly database: Database
  readonly files: FileStore
  readonly search: SearchEngine
  /** null: OCR is switched off */
  readonly ocr: OcrSetup | null
  /** reads for jobs, one file per core */
  readonly reader: DocumentReader
  /** reads for requests that somebody waits for */
  readonly previewer: DocumentReader
  /** null: no mail server is configured */
  readonly mailer: Mailer | null
  /** null: people sign in by password */
  readonly identities: IdentityProvider | null
  readonly tokens: Tokens
  readonly encryptedTokens: EncryptedTokens
  readonly passwords: PasswordHasher
  /** for what is shown and recorded; stored limits and expiries are judged by the database clock (db/clock.ts) */
  now(): Date
  /** milliseconds of a clock that nobody sets: for time spans within this process */
  monotonicMs(): number
}
