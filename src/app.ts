/** What every part of dms is handed: made once, by open-app.ts; never reached for globally. */
import type { Config } from './config.ts'
import type { Database, Db } from './db/db.ts'
import type { Log } from './log.ts'
import type { FileStore } from './ports/files.ts'
import type { Mailer } from './ports/mail.ts'
import type { OcrSetup } from './ports/ocr.ts'
import type { DocumentReader } from './ports/reading.ts'
import type { SearchEngine } from './ports/search.ts'
import type { IdentityProvider, PasswordHasher, Seals, Tokens } from './ports/sign-in.ts'

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
  readonly seals: Seals
  readonly passwords: PasswordHasher
  /** for what is shown and recorded; stored limits and expiries are judged by the database clock (db/clock.ts) */
  now(): Date
  /** milliseconds of a clock that nobody sets: for time spans within this process */
  monotonicMs(): number
}
