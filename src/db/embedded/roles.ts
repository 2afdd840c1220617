/** Roles of the embedded PostgreSQL. Only the superuser may read files or start programs on this machine, and no request uses it. */
import { Client, type ClientConfig } from 'pg'

/** Created by initdb. Creates roles and databases, and holds the server's lock. */
export const superuser = 'dms'
/** Owns the database and its tables: migrations, restores, temporary databases. */
export const ownerRole = 'dms_owner'
/** Reads and writes rows. Owns the tables of the search index, which it creates and drops. */
export const applicationRole = 'dms_app'
export const database = 'dms'

/**
 * Creates the database and its roles if they are missing, and transfers the superuser's objects to the owner. `client` is the superuser's,
 * connected to another database. The caller holds a lock.
 */
export async function prepareDatabase(client: Client, address: ClientConfig): Promise<void> {
  await client.query(`
    do $$ begin
      if to_regrole('${ownerRole}') is null then create role ${ownerRole} login createdb; end if;
      if to_regrole('${applicationRole}') is null then
        create role ${applicationRole} login;
        -- A command that waits for a lock reports its holder, and since when.
        grant pg_read_all_stats to ${applicationRole};
        grant ${applicationRole} to ${ownerRole};
      end if;
    end $$`)
  const { rowCount } = await client.query(`select from pg_database where datname = $1`, [database])
  if (rowCount === 0) await client.query(`create database ${database} owner ${ownerRole}`)
  await transferOwnership(address)
}

/** Transfers objects of the superuser to the owner. A manual restore creates such objects. */
async function transferOwnership(address: ClientConfig): Promise<void> {
  // The application can create functions in the schema: none of them may be found by name here.
  const inside = new Client({ ...address, database, options: '-c search_path=pg_catalog' })
  inside.on('error', () => undefined)
  try {
    await inside.connect()
    await inside.query(`
      do $$ declare statement text; begin
        for statement in
          select format('alter database %I owner to ${ownerRole}', datname) from pg_database
          where datname = current_database() and datdba = '${superuser}'::regrole
          union all
          select format('alter table %s owner to ${ownerRole}', c.oid::regclass) from pg_class c
          where relnamespace = 'public'::regnamespace and relowner = '${superuser}'::regrole and relkind in ('r', 'p', 'v', 'm', 'S')
            and not exists (select from pg_depend where classid = 'pg_class'::regclass and objid = c.oid
              and (deptype = 'e' or c.relkind = 'S' and deptype in ('a', 'i')))
          union all
          select format('alter routine %s owner to ${ownerRole}', p.oid::regprocedure) from pg_proc p
          where pronamespace = 'public'::regnamespace and proowner = '${superuser}'::regrole
            and not exists (select from pg_depend where classid = 'pg_proc'::regclass and objid = p.oid and deptype = 'e')
          union all
          select format('alter type %s owner to ${ownerRole}', t.oid::regtype) from pg_type t
          where typnamespace = 'public'::regnamespace and typowner = '${superuser}'::regrole and typtype in ('e', 'd')
            and not exists (select from pg_depend where classid = 'pg_type'::regclass and objid = t.oid and deptype = 'e')
        loop
          execute statement;
        end loop;
      end $$`)
  } finally {
    await inside.end().catch(() => undefined)
  }
}
