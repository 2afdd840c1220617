/** The tables of documents and their versions as types. */
import type { ColumnType, Generated, JSONColumnType } from 'kysely'

export type DocumentStatus = 'pending' | 'processing' | 'completed' | 'failed'

/** Where the text of a document comes from. `empty`: a reader found no text. `none`: there is no reader for the type. */
export type TextSource = 'text_layer' | 'ocr' | 'mixed' | 'empty' | 'none'

/** How files are split into documents: at blank pages, or at separator sheets and archive serial numbers. */
export type SplitMode = 'none' | 'blank' | 'barcode'

/** A problem of an extraction that completed. */
export interface DocumentWarning {
  code: string
  message: string
  /** numbers of the affected pages */
  pages?: number[]
  /** Tesseract code */
  language?: string
  /** ISO 15924 */
  script?: string
  /** Debian package */
  package?: string
}

type Dated = { document_date: string | null; date_source: 'user' | 'metadata' | 'text' | null; date_confidence: number | null }

type Documents = Timestamps &
  Problem &
  Dated & { date_checked: Generated<boolean> } & {
    id: Generated<string>
    owner_id: string
    title: string
    filename: string
    content: Generated<string>
    status: Generated<DocumentStatus>
    mime_type: string
    size: number
    sha256: string
    ocr_enabled: Generated<boolean>
    language: string
    ocr_confidence: number | null
    page_count: number | null
    metadata: Json<Record<string, unknown>>
    /** the part of `metadata` that the last reading of the file wrote */
    file_metadata: Json<Record<string, unknown>>
    duplicate_of: string | null
    source_id: string | null
    source_path: string | null
    file_replaced_at: Date | null
    /** raised by every change; part of the ETag */
    revision: Generated<number>
    /** number of the version whose file the document shows */
    current_version: Generated<number>
    /** highest version number ever given */
    last_version: Generated<number>
    /** null: not in the trash */
    deleted_at: Date | null
    deleted_by: string | null
    /** end of the retention; only ever later */
    retain_until: Date | null
    processed_at: Date | null
    /** null: not read yet, or read by a release without this column */
    text_source: TextSource | null
    warnings: Json<DocumentWarning[]>
    /** Tesseract codes, most frequent first */
    detected_languages: Generated<string[]>
    /** how to split the file when it is read; null: not at all, or done */
    split: Exclude<SplitMode, 'none'> | null
    /** document that was split into this one and others */
    split_from: string | null
  }

type PageText = Problem & {
  document_id: string
  page: number
  text: Generated<string>
  source: 'text_layer' | 'ocr' | 'empty' | null
  confidence: number | null
  width: number | null
  height: number | null
  duration: number | null
  /** Tesseract codes joined by `+`; null: unknown */
  language: string | null
}

export interface DocumentTables {
  documents: Documents
  /** view of the documents that are not in the trash */
  live_documents: Documents
  /** `text` is null for the only page of a document: it is that of the document */
  document_pages: Omit<PageText, 'text'> & { text: string | null; claim: string | null; claimed_until: Date | null }
  /** `documents` has the text and its state for the current version; they are null here */
  document_versions: {
    document_id: string
    number: number
    sha256: string
    size: number
    mime_type: string
    filename: string
    origin: 'upload' | 'sync' | 'restore' | 'edit'
    created_at: Date
    created_by: string | null
    content: string | null
    status: DocumentStatus | null
    ocr_enabled: boolean | null
    language: string | null
    ocr_confidence: number | null
    page_count: number | null
    error_code: string | null
    error_message: string | null
    processed_at: Date | null
    text_source: TextSource | null
    warnings: Json<DocumentWarning[]> | null
    detected_languages: string[] | null
    file_metadata: Json<Record<string, unknown>> | null
    document_date: string | null
    date_source: 'metadata' | 'text' | null
    date_confidence: number | null
    date_checked: boolean | null
  }
  /** pages of versions that are not current */
  version_pages: PageText & { number: number }
  /** words of OCR with their boxes, see migrations/0020_reading.ts */
  page_words: { document_id: string; number: number; page: number; words: unknown; angle: Generated<number> }
  renditions: Problem & {
    document_id: string
    number: number
    kind: 'pdfa'
    state: Generated<'pending' | 'completed' | 'failed' | 'refused'>
    sha256: string | null
    size: number | null
    created_at: CreatedAt
    finished_at: Date | null
  }
  holds: {
    id: Generated<string>
    name: string
    name_key: string
    reason: string
    created_by: string | null
    created_at: CreatedAt
    /** null: its documents cannot be destroyed */
    released_at: Date | null
  }
  hold_documents: { hold_id: string; document_id: string; added_at: CreatedAt; added_by: string | null }
}

export type CreatedAt = ColumnType<Date, Date | undefined, never>
export type UpdatedAt = ColumnType<Date, Date | undefined, Date>
export type Json<T extends object> = JSONColumnType<T, string | undefined, string>
export type Timestamps = { created_at: CreatedAt; updated_at: UpdatedAt }
export type Problem = { error_code: string | null; error_message: string | null }
