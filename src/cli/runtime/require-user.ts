/** Commands about what only a person has: settings, notifications. */
import type { Cli } from './context.ts'
import { usage } from './exit.ts'

/** Throws Failure USAGE for the operator at the shell, who is nobody in particular. */
export function requireUser({ options, target }: Cli, what: string): void {
  if (target.url === null && options.as === null) throw usage(`whose ${what}? The operator at the shell has none`, 'pass --as USER')
}
