/** Revocation of credentials when an account is linked to an external identity. */
import type { App } from '../app.ts'
import type { Trx } from '../db/pool.ts'
import type { Row } from '../db/schema.ts'
import { notify } from '../notifications/notifications.ts'
import * as sharedLinks from '../shared-links/shared-links.ts'
import * as sources from '../sources/sources.ts'
import * as tokens from '../tokens/tokens.ts'
import { deleteTokens } from '../users/email-verification.ts'
import type { RevokedCredentials } from '../users/external-identity.ts'

/**
 * Revokes the API tokens and verification links of a user and notifies the user. If the e-mail address was never verified, somebody else
 * may have created the account: then also revokes its shared links and disables its sources. The caller raises token_version.
 */
export async function revokeCredentials(app: App, trx: Trx, user: Row<'users'>): Promise<RevokedCredentials> {
  const isTrusted = user.email_verified_at !== null
  const ended = {
    api_tokens: await tokens.removeAll(trx, user.id),
    shared_links: isTrusted ? 0 : await sharedLinks.revokeAll(app, trx, user.id),
    sources: isTrusted ? 0 : await sources.disableAll(app, trx, user.id),
  }
  await deleteTokens(trx, user.id)
  const counts = `${ended.api_tokens} API tokens and ${ended.shared_links} shared links were revoked, ${ended.sources} sources disabled.`
  await notify(app, trx, user.id, 'account_linked', {
    title: 'Your account was linked to single sign-on',
    message: `The local password and all sessions from before have ended; ${counts}`,
    data: { user_id: user.id },
  })
  return ended
}
