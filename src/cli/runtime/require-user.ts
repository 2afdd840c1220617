/** Commands for a user's own data: settings, notifications. */
import type { Cli } from './context.ts'
import { usage } from './exit.ts'

/** Throws Failure USAGE for the operator, who has no user account. */
export function requireUser({ options, target }: Cli, what: string): void {
  if (target.url === null && options.as === null) throw usage(`whose ${what}? The operator at the shell has none`, 'pass --as USER')
}
