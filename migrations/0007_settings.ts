import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // items_per_page null: the value of the configuration.
  await sql`
    create table user_settings (
      user_id               uuid primary key references users (id) on delete cascade,
      theme                 text not null default 'system' check (theme in ('light', 'dark', 'system')),
      language              text not null default 'en',
      notifications_enabled boolean not null default true,
      ocr_default_language  text,
      items_per_page        integer check (items_per_page between 1 and 100)
    )`.execute(db)
}
