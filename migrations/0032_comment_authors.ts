import { type Kysely, sql } from 'kysely'

/** Comments outlive their author. deleted_username: the name of the author, stored when the user is deleted. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    alter table comments
      alter user_id drop not null,
      drop constraint comments_user_id_fkey,
      add foreign key (user_id) references users (id) on delete set null,
      add column deleted_username text,
      add constraint comments_author check ((user_id is null) = (deleted_username is not null))`.execute(db)
  await sql`create index comments_user_id on comments (user_id) where user_id is not null`.execute(db)
  // A trigger, because servers of earlier releases delete users too. One UPDATE: a second one of a row would lock its document.
  await sql`
    create function dms_keep_comments() returns trigger language plpgsql as $$
      begin
        update comments set user_id = null, deleted_username = old.username where user_id = old.id;
        return old;
      end
    $$`.execute(db)
  await sql`create trigger dms_keep_comments before delete on users for each row execute function dms_keep_comments()`.execute(db)
}

export const loses = 'comments of deleted users, with all replies to them'

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql`drop trigger dms_keep_comments on users`.execute(db)
  await sql`drop function dms_keep_comments()`.execute(db)
  await sql`delete from comments where user_id is null`.execute(db)
  await sql`drop index comments_user_id`.execute(db)
  await sql`
    alter table comments
      drop column deleted_username,
      drop constraint comments_user_id_fkey,
      add foreign key (user_id) references users (id) on delete cascade,
      alter user_id set not null`.execute(db)
}
