/**
 * Every route, with a successful request and one for each failure that it declares. Tests are generated from this table: of every code of every
 * route (errors-by-route.test.ts), of ids of other users (foreign-ids.test.ts), of unknown fields (mass-assignment.test.ts), and of hostile
 * values (hostile-values.test.ts).
 *
 * A new route needs a row in the file of its domain (a new domain: a file and a line here). `good` prepares what it needs and returns the request:
 * the path parameters in `params`, `query`, and `json` or `form`. It is sent by Ada, by an admin, or without a token, depending on the access of the
 * route. `errors` has a request for each code in the route's own `errors`. Failures that access, ids, query and body imply (401, 403, 404, 400, 413,
 * 415), and 429, 500 and 503, are tested without a row. If query or body take ids that `good` leaves out, `withIds` has a request with them.
 */
import type { Route } from '../../src/http/route.ts'
import { nameOf, type Row, type Rows } from '../support/route-table.ts'
import { rows as audit } from './audit.ts'
import { rows as auth } from './auth.ts'
import { rows as comments } from './comments.ts'
import { rows as documents } from './documents.ts'
import { rows as holds } from './holds.ts'
import { rows as labels } from './labels.ts'
import { rows as notifications } from './notifications.ts'
import { rows as ocr } from './ocr.ts'
import { rows as oidc } from './oidc.ts'
import { rows as publicLinks } from './public-links.ts'
import { rows as renditions } from './renditions.ts'
import { rows as search } from './search.ts'
import { rows as server } from './server.ts'
import { rows as settings } from './settings.ts'
import { rows as sharedLinks } from './shared-links.ts'
import { rows as sources } from './sources.ts'
import { rows as tokens } from './tokens.ts'
import { rows as users } from './users.ts'
import { rows as versions } from './versions.ts'

export const table: Rows = {
  ...auth,
  ...oidc,
  ...users,
  ...tokens,
  ...documents,
  ...versions,
  ...renditions,
  ...search,
  ...ocr,
  ...settings,
  ...sources,
  ...labels,
  ...holds,
  ...notifications,
  ...sharedLinks,
  ...publicLinks,
  ...comments,
  ...audit,
  ...server,
}

/** Returns the row of a route. Throws if there is none. */
export function rowOf(route: Route): Row {
  const row = table[nameOf(route)]
  if (!row) throw new Error(`${nameOf(route)} has no row: how to write one is said in test/route-table/all.ts`)
  return row
}
