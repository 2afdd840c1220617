/** Roles and rights that an administrator has added to a cluster. */
import type { Client } from 'pg'
import { applicationRole, ownerRole, superuser } from '../roles.ts'

const ownRoles = `'${superuser}', '${ownerRole}', '${applicationRole}'`

/** Returns statements that create the other roles, with their passwords and memberships. */
export async function roleStatements(client: Client): Promise<string[]> {
  const { rows } = await client.query<{ statement: string }>(`
    select 1 as step, format('create role %I', rolname) as statement from pg_authid where rolname !~ '^pg_' and rolname not in (${ownRoles})
    union all select 2, format('alter role %I %s %s %s %s %s connection limit %s password %L valid until %L', rolname,
        case when rolsuper then 'superuser' else 'nosuperuser' end, case when rolcreaterole then 'createrole' else 'nocreaterole' end,
        case when rolcreatedb then 'createdb' else 'nocreatedb' end, case when rolcanlogin then 'login' else 'nologin' end,
        case when rolinherit then 'inherit' else 'noinherit' end, rolconnlimit, rolpassword, coalesce(rolvaliduntil, 'infinity'))
      from pg_authid where rolname !~ '^pg_' and (rolname not in (${ownRoles}) or rolpassword is not null)
    union all select 3, format('grant %s to %s%s', roleid::regrole, member::regrole, case when admin_option then ' with admin option' else '' end)
      from pg_auth_members where member::regrole::text !~ '^pg_' and member::regrole::text not in (${ownRoles})
    order by 1, 2`)
  return rows.map(({ statement }) => statement)
}

/** Returns statements that grant the other roles their rights to the schema and its relations. */
export async function grantStatements(client: Client): Promise<string[]> {
  const { rows } = await client.query<{ statement: string }>(`
    with granted as (
      select format('%s %s', case c.relkind when 'S' then 'sequence' else 'table' end, c.oid::regclass) as target, a.*
        from pg_class c, aclexplode(c.relacl) a where c.relnamespace = 'public'::regnamespace and a.grantee <> c.relowner
      union all select 'schema public', a.* from pg_namespace n, aclexplode(n.nspacl) a where n.nspname = 'public')
    select distinct format('grant %s on %s to %s%s', privilege_type, target, case grantee when 0 then 'public' else grantee::regrole::text end,
      case when is_grantable then ' with grant option' else '' end) as statement
    from granted where grantee = 0 or grantee::regrole::text not in (${ownRoles}, 'pg_database_owner')`)
  return rows.map(({ statement }) => statement)
}

/** Returns settings of an administrator that are not copied: changes of postgresql.conf, and settings of roles and databases. */
export async function listForeignSettings(client: Client, fresh: Client): Promise<string[]> {
  const fromFile = async (from: Client) =>
    (await from.query<{ setting: string }>(`select name || ' = ' || setting as setting from pg_file_settings where applied`)).rows
  const defaults = new Set((await fromFile(fresh)).map(({ setting }) => setting))
  const { rows } = await client.query<{ setting: string }>(`select unnest(setconfig) as setting from pg_db_role_setting`)
  return [...(await fromFile(client)), ...rows].map(({ setting }) => setting).filter((setting) => !defaults.has(setting))
}
