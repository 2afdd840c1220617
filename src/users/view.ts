/** API view of users. */
import { z } from 'zod'
import type { Row } from '../db/schema.ts'
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
export const view = (user: Row<'users'>): UserView => ({
  id: user.id,
  username: user.username,
  email: user.email,
  role: user.role,
  display_name: user.display_name,
  disabled: user.disabled,
  auth_method: user.auth_method,
  created_at: user.created_at.toISOString(),
  last_login_at: user.last_login_at?.toISOString() ?? null,
})
