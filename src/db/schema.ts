/** The tables as types. migrations/ defines them. */
import type { ColumnType, Generated, Selectable } from 'kysely'
import type { Scope } from '../actor.ts'
import type { CreatedAt, DocumentTables, Json, Problem, SplitMode, Timestamps, UpdatedAt } from './schema-documents.ts'

type Counts<Name extends string> = { [name in Name]: Generated<number> }

export type Role = 'admin' | 'user'
export type JobStatus = 'pending' | 'processing' | 'completed' | 'failed' | 'cancelled'

export interface Schema extends DocumentTables {
  users: Timestamps & {
    id: Generated<string>
    username: string
    username_key: string
    email: string
    email_key: string
    email_verified_at: Date | null
    password_hash: string | null
    role: Generated<Role>
    display_name: Generated<string>
    disabled: Generated<boolean>
    auth_method: Generated<'local' | 'oidc'>
    oidc_issuer: string | null
    oidc_subject: string | null
    groups: Generated<string[]>
    groups_synced_at: Date | null
    token_version: Generated<number>
    last_login_at: Date | null
  }
  revoked_tokens: { jti: string; user_id: string; expires_at: Date }
  api_tokens: {
    id: Generated<string>
    user_id: string
    name: string
    name_key: string
    token_hash: string
    scopes: Scope[]
    token_version: number
    created_at: CreatedAt
    expires_at: Date | null
    last_used_at: Date | null
  }
  audit_entries: {
    seq: number
    at: Date
    actor_id: string | null
    actor: string
    via: string
    ip: string
    action: string
    target: string
    outcome: 'ok' | 'refused' | 'failed'
    code: string | null
    /** JSON object as the text that was hashed */
    details: string
    request_id: string
    hash: string
  }
  email_verifications: { token_hash: string; user_id: string; expires_at: Date; created_at: CreatedAt }
  rate_hits: { key: string; at: CreatedAt }
  instance: { key: string; value: string }
  stored_files: { sha256: string; size: number; created_at: CreatedAt; address: string }
  file_removals: { address: string; requested_at: CreatedAt }
  document_labels: { document_id: string; label_id: string }
  idempotency_keys: {
    caller: string
    key: string
    fingerprint: string
    status: number | null
    /** JSON as text. Releases before 1.0.0 wrote an object. */
    answer: ColumnType<string | object | null, string | null>
    created_at: CreatedAt
  }
  jobs: Problem & {
    id: Generated<string>
    kind: string
    queue: string
    status: Generated<JobStatus>
    priority: Generated<number>
    run_at: ColumnType<Date, Date | undefined, Date>
    attempts: Generated<number>
    max_attempts: Generated<number>
    /** how often a worker died while it ran this job */
    losses: Generated<number>
    payload: Json<object>
    document_id: string | null
    parent_id: string | null
    owner_id: Generated<string>
    dedupe_key: string | null
    fence: Generated<number>
    worker: string | null
    lease_until: Date | null
    pages_done: Generated<number>
    pages_total: number | null
    created_at: CreatedAt
    started_at: Date | null
    finished_at: Date | null
  }
  workers: { name: string; queues: string[]; started_at: CreatedAt; seen_at: UpdatedAt }
  labels: Timestamps & {
    id: Generated<string>
    name: string
    name_key: string
    color: string
    description: Generated<string>
    /** days after its creation for which a document with this label is retained; null: none */
    retention_days: number | null
    /** `creator`: only documents that the creator of the label owns */
    retention_scope: 'creator' | 'all' | null
    created_by: string | null
  }
  search_entries: { document_id: string; segment: number; version: number }
  search_passages: { document_id: string; segment: number; passage: number; words: string; start_at: number; length: number }
  search_rebuild: { key: Generated<boolean>; started_at: CreatedAt }
  search_changes: { document_id: string }
  events: {
    seq: Generated<number>
    type: string
    /** null: for admins */
    user_id: string | null
    data: Json<object>
    at: CreatedAt
    /** in the order of commits; null: not yet assigned */
    position: number | null
    /** number of the partition, from the time */
    slot: Generated<number>
  }
  servers: { id: string; http_connections: Generated<number>; ws_connections: Generated<number>; started_at: CreatedAt; seen_at: UpdatedAt }
  live_places: { id: string; user_id: string; server_id: string; taken_at: CreatedAt }
  notifications: {
    id: Generated<string>
    user_id: string
    type: string
    title: string
    message: string
    data: Json<Record<string, unknown>>
    read_at: Date | null
    created_at: CreatedAt
  }
  user_settings: {
    user_id: string
    theme: Generated<'light' | 'dark' | 'system'>
    language: Generated<string>
    notifications_enabled: Generated<boolean>
    ocr_default_language: string | null
    items_per_page: number | null
  }
  shared_links: {
    id: Generated<string>
    document_id: string
    created_by: string
    token: string
    password_hash: string | null
    expires_at: Date | null
    max_views: number | null
    view_count: Generated<number>
    revoked_at: Date | null
    created_at: CreatedAt
  }
  shared_link_views: { link_id: string; client: string; at: Date; sha256: string | null }
  comments: Timestamps & {
    id: Generated<string>
    document_id: string
    parent_id: string | null
    /** null: the author was deleted */
    user_id: string | null
    /** name of the author; null while the user exists */
    deleted_username: string | null
    content: string
    is_edited: Generated<boolean>
  }
  sources: Timestamps & {
    id: Generated<string>
    owner_id: string
    name: string
    type: 'webdav' | 'local_folder' | 's3'
    url: string
    credentials: Buffer | null
    status: Generated<'active' | 'syncing' | 'error' | 'disabled'>
    sync_interval: Generated<number>
    recursive: Generated<boolean>
    /** null: as configured */
    split: SplitMode | null
    file_patterns: Generated<string[]>
    last_sync: Date | null
    next_sync: Date | null
    last_error: string | null
    failures: Generated<number>
    /** local_folder of a normal user: the admin who granted it; null: no admin, or the operator */
    granted_by: string | null
    is_granted_by_operator: Generated<boolean>
    totals: Json<Record<string, number>>
  }
  source_syncs: Problem &
    Counts<'total' | 'created' | 'updated' | 'unchanged' | 'skipped' | 'failed' | 'removed' | 'bytes'> & {
      id: Generated<string>
      source_id: string
      holder: string
      state: Generated<'running' | 'completed' | 'failed' | 'cancelled'>
      current_file: string | null
      errors: Json<{ path: string; code: string; message: string }[]>
      started_at: ColumnType<Date, Date | undefined, Date>
      finished_at: Date | null
    }
  source_folders: { source_id: string; path: string; etag: string | null; next_etag: string | null; seen_by: string | null }
  source_files: {
    source_id: string
    path: string
    etag: string | null
    size: number | null
    modified_at: Date | null
    sha256: string | null
    /** null: never stored, or deleted by a user */
    document_id: string | null
    outcome: 'stored' | 'moving' | 'skipped' | 'failed'
    /** the last run that counted the file */
    run_id: string | null
    /** `holder` of the last turn of a run that listed the file */
    seen_by: string | null
    removed_at: Date | null
  }
  runs: { name: string; last_success_at: Date }
}

export type Row<Table extends keyof Schema> = Selectable<Schema[Table]>
