import { type Kysely, sql } from 'kysely'

const tableOf = (segment: number) => `search_segment_${segment}`

/** Segments get a column for deferred tags, which are indexed when the segment is full. Segments with entries stay as they are. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table search_segment_template add column deferred_tags smallint[] not null`.execute(db)
  await sql`alter table search_segment_template alter deferred_tags set storage external, alter deferred_tags set statistics 0`.execute(db)
  await sql`alter table search_segments add column has_deferred_tags boolean not null default false`.execute(db)
  await sql`alter table search_segments alter has_deferred_tags set default true`.execute(db)
  const { rows: segments } = await sql<{ number: number }>`select number from search_segments order by number`.execute(db)
  for (const { number } of segments) {
    const table = tableOf(number)
    const { rows } = await sql`select from ${sql.table(table)} limit 1`.execute(db)
    if (rows.length > 0) continue
    await sql`drop table ${sql.table(table)}`.execute(db)
    await sql`create table ${sql.table(table)} (like search_segment_template including all)`.execute(db)
    await sql`create index ${sql.id(`${table}_growing`)} on ${sql.table(table)} using gin (words, tags) with (gin_pending_list_limit = 16384)`.execute(
      db,
    )
    await sql`update search_segments set has_deferred_tags = true where number = ${number}`.execute(db)
  }
}

export const loses = 'nothing'

export async function down(db: Kysely<unknown>): Promise<void> {
  const { rows: segments } = await sql<{ number: number }>`
    select number from search_segments where has_deferred_tags order by number`.execute(db)
  for (const { number } of segments) {
    const table = tableOf(number)
    await sql`drop index if exists ${sql.id(`${table}_growing`)}, ${sql.id(`${table}_complete`)}`.execute(db)
    await sql`update ${sql.table(table)} set tags = deferred_tags || tags`.execute(db)
    await sql`alter table ${sql.table(table)} drop column deferred_tags`.execute(db)
    await sql`create index on ${sql.table(table)} using gin (words, tags) with (gin_pending_list_limit = 16384)`.execute(db)
  }
  await sql`alter table search_segments drop column has_deferred_tags`.execute(db)
  await sql`alter table search_segment_template drop column deferred_tags`.execute(db)
}
