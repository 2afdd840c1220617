/** The catalogs of two databases: missing objects and differences. */
import type { Client } from 'pg'

/** Excludes objects of extensions. */
const isOwn = (classId: string, oid: string): string =>
  `not exists (select from pg_depend d where d.classid = '${classId}'::regclass and d.objid = ${oid} and d.deptype = 'e')`

const relations = `pg_class c where c.relnamespace = 'public'::regnamespace and ${isOwn('pg_class', 'c.oid')}`

export interface Table {
  name: string
  owner: string
  /** columns that are not generated */
  columns: string[]
  bytes: number
  /** partitioned table with its schema; null if this is no partition */
  parent: string | null
  /** whether the table has foreign keys or is referenced by one */
  hasForeignKeys: boolean
}

const select = async <T extends object>(client: Client, query: string): Promise<T[]> => (await client.query<T>(query)).rows

/** Returns all tables that hold rows themselves, the largest first. */
export const listTables = (client: Client): Promise<Table[]> =>
  select(
    client,
    `select c.relname::text as name, c.relowner::regrole::text as owner, pg_table_size(c.oid)::float8 as bytes,
       exists (select from pg_constraint k where k.contype = 'f' and c.oid in (k.conrelid, k.confrelid)) as "hasForeignKeys",
       (select inhparent::regclass::text from pg_inherits where inhrelid = c.oid and c.relispartition) as parent,
       (select coalesce(array_agg(a.attname::text order by a.attnum), '{}') from pg_attribute a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = '') as columns
     from ${relations} and c.relkind = 'r' order by pg_table_size(c.oid) desc`,
  )

/** Returns the partitioned tables with foreign keys. They have no rows of their own. */
export const listPartitioned = (client: Client): Promise<{ name: string }[]> =>
  select(
    client,
    `select c.relname::text as name from ${relations} and c.relkind = 'p'
       and exists (select from pg_constraint where contype = 'f' and conrelid = c.oid)`,
  )

/** Returns statements by table that create it as in this database, without its indexes and options. Identity columns are not supported. */
export async function tableStatements(client: Client): Promise<Map<string, string[]>> {
  const rows = await select<{ name: string; statement: string }>(
    client,
    `with own as (select c.* from ${relations} and c.relkind = 'r'),
     columns as (
       select o.relname, a.attnum, a.attstorage, t.typstorage, a.attname, o.relispartition,
         format('%I %s%s%s%s', a.attname, format_type(a.atttypid, a.atttypmod),
           case when a.attcollation not in (0, t.typcollation) then ' collate ' || a.attcollation::regcollation else '' end,
           case when a.attgenerated = 's' then format(' generated always as (%s) stored', pg_get_expr(f.adbin, f.adrelid))
             else coalesce(' default ' || pg_get_expr(f.adbin, f.adrelid), '') end,
           case when a.attnotnull then ' not null' else '' end) as definition
       from own o join pg_attribute a on a.attrelid = o.oid and a.attnum > 0 and not a.attisdropped join pg_type t on t.oid = a.atttypid
         left join pg_attrdef f on f.adrelid = a.attrelid and f.adnum = a.attnum)
     select 1 as step, relname::text as name, case when relispartition
         then format('create table public.%I partition of %s %s', relname, (select inhparent::regclass from pg_inherits where inhrelid = own.oid),
           pg_get_expr(relpartbound, oid))
         else format('create %stable public.%I (%s)', case relpersistence when 'u' then 'unlogged ' else '' end, relname,
           (select string_agg(definition, ', ' order by attnum) from columns where columns.relname = own.relname)) end as statement from own
     union all select 2, relname, format('alter table public.%I alter %I set storage %s', relname, attname,
         case attstorage when 'p' then 'plain' when 'e' then 'external' when 'm' then 'main' else 'extended' end)
       from columns where attstorage <> typstorage and not relispartition
     union all select 3, o.relname, format('alter table public.%I add constraint %I %s', o.relname, k.conname, pg_get_constraintdef(k.oid))
       from pg_constraint k join own o on o.oid = k.conrelid where k.contype in ('p', 'u', 'x', 'c', 'f') and not o.relispartition
     order by 1, 2, 3`,
  )
  const byTable = Map.groupBy(rows, ({ name }) => name)
  return new Map([...byTable].map(([name, statements]) => [name, statements.map(({ statement }) => statement)]))
}

/** Statements that set or reset the options of tables, indexes and columns as in this database. */
const options = `(
  with own as (select c.oid, c.relname, c.relkind, c.reltoastrelid, c.reloptions from ${relations}),
  changes as (
    select case when relkind in ('i', 'I') then format('index public.%I', relname) else format('table only public.%I', relname) end as target,
        option_name as name, option_value as value from own, pg_options_to_table(reloptions)
    union all select format('table only public.%I', own.relname), 'toast.' || option_name, option_value
      from own join pg_class t on t.oid = own.reltoastrelid, pg_options_to_table(t.reloptions)
    union all select format('table only public.%I alter %I', relname, attname), option_name, option_value
      from own join pg_attribute a on a.attrelid = own.oid, pg_options_to_table(a.attoptions))
  select format('alter %s set (%s = %L)', target, name, value) as set, format('alter %s reset (%s)', target, name) as reset from changes
  union all select format('alter table only public.%I alter %I set statistics %s', relname, attname, attstattarget),
      format('alter table only public.%I alter %I set statistics -1', relname, attname)
    from own join pg_attribute a on a.attrelid = own.oid
    where relkind in ('r', 'p') and attnum > 0 and not attisdropped and attstattarget >= 0)`

export const listOptions = (client: Client): Promise<{ set: string; reset: string }[]> => select(client, `select * from ${options} o`)

/** Returns the indexes that belong to no constraint, with their statements. Those of partitioned tables follow their parents. */
export const listIndexes = (client: Client): Promise<{ name: string; table: string; statement: string }[]> =>
  select(
    client,
    `select c.relname::text as name, t.relname::text as table, pg_get_indexdef(c.oid) as statement
     from pg_index i join pg_class c on c.oid = i.indexrelid join pg_class t on t.oid = i.indrelid
     where c.relnamespace = 'public'::regnamespace and c.relkind = 'i' and not c.relispartition and t.relkind = 'r'
       and not exists (select from pg_constraint k where k.conindid = c.oid)`,
  )

/** Returns the sequences with their last values, as setval() takes them. */
export async function listSequences(client: Client): Promise<{ name: string; value: string; isCalled: boolean }[]> {
  const names = await select<{ name: string }>(
    client,
    `select format('public.%I', c.relname) as name from ${relations} and c.relkind = 'S'`,
  )
  const sequences = []
  for (const { name } of names) {
    const [row] = await select<{ value: string; isCalled: boolean }>(
      client,
      `select last_value::text as value, is_called as "isCalled" from ${name}`,
    )
    if (row) sequences.push({ name, ...row })
  }
  return sequences
}

/** Returns the definition of every object in the schema, by kind and name. */
export async function describeObjects(client: Client): Promise<Map<string, string>> {
  const rows = await select<{ name: string; definition: string }>(
    client,
    `select 'relation ' || c.relname as name, concat(c.relkind, c.relpersistence, ' ', c.relowner::regrole, ' ',
         pg_get_partkeydef(c.oid), pg_get_expr(c.relpartbound, c.oid)) as definition from ${relations}
     union all select format('column %s.%s', c.relname, a.attname), concat_ws(' ', format_type(a.atttypid, a.atttypmod),
         a.attcollation::regcollation, a.attnotnull, a.attidentity, a.attgenerated, pg_get_expr(f.adbin, f.adrelid))
       from pg_attribute a join pg_class c on c.oid = a.attrelid left join pg_attrdef f on f.adrelid = a.attrelid and f.adnum = a.attnum
       where a.attnum > 0 and not a.attisdropped and c.relkind in ('r', 'p') and c.oid in (select c.oid from ${relations})
     union all select format('index %s', c.relname), pg_get_indexdef(c.oid) from ${relations} and c.relkind in ('i', 'I')
     union all select format('constraint %s.%s', conrelid::regclass, conname), pg_get_constraintdef(oid)
       from pg_constraint where connamespace = 'public'::regnamespace and contype <> 'n'
     union all select format('trigger %s.%s', tgrelid::regclass, tgname), concat(tgenabled, ' ', pg_get_triggerdef(t.oid))
       from pg_trigger t where not tgisinternal and tgrelid in (select c.oid from ${relations})
     union all select format('function %s', p.oid::regprocedure), pg_get_functiondef(p.oid)
       from pg_proc p where p.pronamespace = 'public'::regnamespace and p.prokind in ('f', 'p') and ${isOwn('pg_proc', 'p.oid')}
     union all select format('view %s', c.relname), pg_get_viewdef(c.oid) from ${relations} and c.relkind in ('v', 'm')
     union all select format('type %s', t.typname), t.typtype::text from pg_type t
       where t.typnamespace = 'public'::regnamespace and t.typtype in ('e', 'd', 'r') and ${isOwn('pg_type', 't.oid')}
     union all select format('extension %s', extname), '' from pg_extension
     union all select format('schema %s', nspname), '' from pg_namespace where nspname !~ '^pg_'
     union all select set, '' from ${options} o
     union all select 'large objects', count(*)::text from pg_largeobject_metadata`,
  )
  return new Map(rows.map(({ name, definition }) => [name, definition]))
}

/** Returns the names of objects that differ or exist in only one of two schemas. */
export function findDifferences(one: ReadonlyMap<string, string>, two: ReadonlyMap<string, string>): string[] {
  const names = [...new Set([...one.keys(), ...two.keys()])]
  return names.filter((name) => one.get(name) !== two.get(name)).sort()
}

/** Counts the rows of a table and adds up their hashes, which does not depend on the order of the rows. */
export async function checksumTable(client: Client, { name, columns }: Table, quote: (name: string) => string): Promise<string> {
  const [row] = await select<{ checksum: string }>(
    client,
    `select format('%s rows, checksum %s', count(*),
       sum(('x' || encode(substr(sha256(convert_to(row(${columns.map(quote).join(', ')})::text, 'UTF8')), 1, 8), 'hex'))::bit(64)::int8)) as checksum
     from only public.${quote(name)}`,
  )
  return row?.checksum ?? ''
}
