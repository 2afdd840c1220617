/** Which sessions are still good: for connections that outlive the request that was asked for their token. */
import { sql } from 'kysely'
import type { Actor } from '../actor.ts'
import type { App } from '../app.ts'
import type { Claims } from '../ports/identity-provider.ts'

/** Who the sessions stand for now, by the ids of their tokens; those that ended are not in it. Whether a token is in time is not asked here. */
export async function current(app: App, sessions: readonly Pick<Claims, 'sub' | 'jti' | 'ver'>[]): Promise<Map<string, Actor>> {
  const { rows } = await sql<{ jti: string; id: string; role: Actor['role']; username: string }>`
    select session.jti, users.id, username, case when api_tokens.id is null or 'admin' = any(scopes) then role else 'user' end as role
    from jsonb_to_recordset(${JSON.stringify(sessions)}) as session (sub uuid, jti uuid, ver integer)
    join users on users.id = session.sub and users.token_version = session.ver and not disabled
    left join api_tokens on api_tokens.id = session.jti
    where not exists (select from revoked_tokens where revoked_tokens.jti = session.jti)`.execute(app.db)
  return new Map(rows.map(({ jti, ...actor }) => [jti, actor]))
}
