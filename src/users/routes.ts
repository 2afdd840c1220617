import { z } from 'zod'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { booleanText } from '../http/input.ts'
import { pageQuery, pageSchema, pagination } from '../http/pages.ts'
import { admin, type Route, user } from '../http/route.ts'
import { resolvePage } from '../settings/settings.ts'
import { DisplayName, Email, Role, Username } from './fields.ts'
import { ImportAnswer, ImportBody, importUsers } from './import.ts'
import { newPassword } from './passwords.ts'
import { deleteUser } from './user-deletion.ts'
import * as users from './users.ts'
import { UserAnswer, view } from './view.ts'

const ids = { id: 'USER_NOT_FOUND' } as const

export const listQuery = ({ config }: App) =>
  z.object({ ...pageQuery(config), role: Role.optional(), q: z.string().max(320).optional(), disabled: booleanText.optional() })

export const newUser = ({ config }: App) =>
  z.object({
    username: Username,
    email: Email,
    password: newPassword(config).nullable().describe('Null allows single sign-on only.'),
    role: Role.default('user'),
    display_name: DisplayName.default(''),
  })

export const update = ({ config }: App) =>
  z.object({ email: Email, display_name: DisplayName, role: Role, disabled: z.boolean(), password: newPassword(config) }).partial()

export const Removal = z.object({ documents: z.enum(['delete', 'transfer']).optional(), to: z.string().max(320).optional() })

export const Profile = z.object({ email: Email, display_name: DisplayName }).partial()

export const GroupsAnswer = z.object({ username: z.string(), groups: z.array(z.string()), synced_at: z.iso.datetime().nullable() })

export const routes = (app: App): Route[] => [
  admin(
    'GET /api/users',
    { summary: 'List users', query: listQuery(app), answer: pageSchema(UserAnswer), isLarge: true },
    async ({ actor, query }) => {
      const page = await resolvePage(app, actor, query)
      const fetched = await users.list(app.db, query, page)
      return { data: fetched.rows.map(view), pagination: pagination(page, fetched) }
    },
  ),
  admin(
    'POST /api/users',
    { summary: 'Create a user', body: newUser(app), status: 201, answer: UserAnswer, errors: ['DUPLICATE_RESOURCE'] },
    async ({ body: { password, ...fields } }) => {
      const password_hash = password === null ? null : await app.passwords.hash(password)
      const user = { ...fields, password_hash, email_verified: true }
      return view(await app.db.transaction().execute((trx) => users.create(app, trx, user)))
    },
  ),
  admin(
    'POST /api/users/import',
    {
      summary: 'Create or update many users, with a result for each row',
      query: z.object({
        dry_run: booleanText.default(false),
        atomic: booleanText.default(false).describe('Writes nothing if any row is invalid.'),
      }),
      body: ImportBody,
      maxBodyBytes: 16_000_000,
      isLong: true,
      answer: ImportAnswer,
    },
    ({ body, query }) => importUsers(app, body, query),
  ),
  user('GET /api/users/profile', { summary: 'Get your account', answer: UserAnswer, errors: ['USER_NOT_FOUND'] }, async ({ actor }) =>
    view(await users.get(app.db, actor.id)),
  ),
  user(
    'PUT /api/users/profile',
    {
      summary: 'Change your account',
      scope: 'session',
      body: Profile,
      answer: UserAnswer,
      errors: ['USER_NOT_FOUND', 'DUPLICATE_RESOURCE'],
    },
    async ({ actor, body }) => view(await users.updateProfile(app, actor, body)),
  ),
  admin('GET /api/users/:id', { summary: 'Get a user', ids, answer: UserAnswer }, async ({ param }) =>
    view(await users.get(app.db, param('id'))),
  ),
  admin(
    'PUT /api/users/:id',
    { summary: 'Change a user', ids, body: update(app), answer: UserAnswer, errors: ['DUPLICATE_RESOURCE', 'CONFLICT'] },
    async ({ param, body }) => view(await users.update(app, param('id'), { ...body, email_verified: true })),
  ),
  admin(
    'DELETE /api/users/:id',
    {
      summary: 'Delete a user, and transfer or delete the documents',
      description:
        'Comments of the user on documents that stay are kept with the username. More than 500 documents are destroyed in batches, after the user is disabled. If it is interrupted, or refused by a hold placed meanwhile, the user stays disabled: repeat it.',
      ids,
      query: Removal,
      errors: ['CONFLICT', 'RETENTION'],
    },
    ({ actor, param, query }) => deleteUser(app, actor, param('id'), query),
  ),
  admin(
    'GET /api/users/:identifier/groups',
    { summary: 'List the groups of a user; the path takes a username or email address', answer: GroupsAnswer, errors: ['USER_NOT_FOUND'] },
    async ({ param }) => {
      const account = await users.findByIdentifier(app.db, param('identifier'))
      if (!account) throw new AppError('USER_NOT_FOUND')
      return { username: account.username, groups: account.groups, synced_at: account.groups_synced_at?.toISOString() ?? null }
    },
  ),
]
