/** API view of users. */
import { z } from 'zod'
import type { Row } from '../db/schema.ts'
import { viewOf } from '../http/view.ts'
import { Role } from './fields.ts'

export const UserAnswer = z.object({
  id: z.uuid(),
  username: z.string(),
  email: z.string(),
  role: Role,
  display_name: z.string(),
  disabled: z.boolean(),
  auth_method: z.enum(['local', 'oidc']),
  created_at: z.iso.datetime(),
  last_login_at: z.iso.datetime().nullable(),
})

export type UserView = z.infer<typeof UserAnswer>

/** Returns the public fields of a user. */
export const view = (user: Row<'users'>): UserView => viewOf(UserAnswer, user)
