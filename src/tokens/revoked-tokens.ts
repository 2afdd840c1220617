/** Tokens that are refused although they are in time. */
import type { App } from '../app.ts'
import { clock } from '../db/clock.ts'
import type { Trx } from '../db/pool.ts'
import type { Session } from '../http/route.ts'

/** Puts a token on the list until nobody could refresh it either; false when it was there already. */
export async function revoke(app: App, trx: Trx, user_id: string, { jti, exp }: Pick<Session, 'jti' | 'exp'>): Promise<boolean> {
  await trx.deleteFrom('revoked_tokens').where('expires_at', '<', clock).execute()
  const expires_at = new Date((exp + grace(app)) * 1000)
  const { numInsertedOrUpdatedRows } = await trx
    .insertInto('revoked_tokens')
    .values({ jti, user_id, expires_at })
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirstOrThrow()
  return numInsertedOrUpdatedRows === 1n
}

/** Seconds after its end for which a token can be refreshed. */
export const grace = ({ config }: App): number => config.auth.refresh_grace_hours * 3600
