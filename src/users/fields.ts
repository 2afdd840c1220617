/** Schemas of user fields. Normalization gives each value one spelling. */
import { z } from 'zod'
import { usernameKey } from '../http/user-identifier.ts'
import { hasInvisible } from '../http/visible-text.ts'
import { hasMixedScripts } from './confusables.ts'

/** Rejects spaces, control, invisible and unassigned characters, and @: no name is an e-mail address. */
const usernamePattern = /^[^\p{C}\p{Z}\p{Default_Ignorable_Code_Point}@]*$/u

/** Names that the audit log uses for actors who are no users. */
const reservedNames: ReadonlySet<string> = new Set(['operator', 'anonymous'])

/** Tells if a name looks like an id or a reserved name. Users are also looked up by these. */
const isAmbiguous = (name: string): boolean =>
  /^\{?[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}\}?$/i.test(name) || reservedNames.has(usernameKey(name))

export const Username = z
  .string()
  .max(1000, { abort: true })
  .trim()
  .normalize('NFKC')
  .min(1)
  .max(64)
  .regex(usernamePattern, 'no @, space, control or invisible character')
  .refine((name) => !isAmbiguous(name), 'not of the form of an id, and neither operator nor anonymous')
  .refine((name) => name !== '.' && name !== '..', 'not . or .., which paths of URLs cannot contain')
  .refine((name) => !hasMixedScripts(name), 'letters of one script, not of several that look alike')

/** E-mail address by the pattern of browsers, which accepts admin@localhost. */
export const Email = z.email({ pattern: z.regexes.html5Email, error: 'an e-mail address' }).max(254)

export const DisplayName = z
  .string()
  .trim()
  .max(100)
  .refine((name) => !hasInvisible(name), 'no control or invisible character, and none that changes the direction of text')

export const Role = z.enum(['admin', 'user'])
