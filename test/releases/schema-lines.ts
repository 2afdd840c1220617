/** Lists the schema that migrations create. */
import type pg from 'pg'

/** Returns one sorted line for each column, constraint, index, trigger and function of the current schema. */
export async function listSchema(client: Pick<pg.ClientBase, 'query'>): Promise<string[]> {
  const { rows } = await client.query<{ line: string }>(`
    with tables as (
      select oid, relname from pg_class where relnamespace = current_schema()::regnamespace and relkind = 'r'
        and not exists (select from pg_depend where classid = 'pg_class'::regclass and objid = pg_class.oid and deptype = 'e'))
    select format('column %s.%s %s%s%s', relname, attname, format_type(atttypid, atttypmod), case when attnotnull then ' not null' end,
        ' default ' || pg_get_expr(adbin, adrelid)) as line
      from tables join pg_attribute on attrelid = tables.oid and attnum > 0 and not attisdropped
      left join pg_attrdef on adrelid = attrelid and adnum = attnum
    union all
    select format('constraint %s.%s %s', relname, conname, pg_get_constraintdef(pg_constraint.oid))
      from tables join pg_constraint on conrelid = tables.oid and contype <> 'n'
    union all
    select pg_get_indexdef(indexrelid) from tables join pg_index on indrelid = tables.oid
    union all
    select pg_get_triggerdef(pg_trigger.oid) from tables join pg_trigger on tgrelid = tables.oid and not tgisinternal
    union all
    select format('function %s %s', oid::regprocedure, md5(prosrc)) from pg_proc where pronamespace = current_schema()::regnamespace
      and not exists (select from pg_depend where classid = 'pg_proc'::regclass and objid = pg_proc.oid and deptype = 'e')`)
  return rows.map(({ line }) => line.replaceAll('public.', '')).sort()
}
