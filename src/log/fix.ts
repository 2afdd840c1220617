/** Advice that solves a problem, as errors and diagnoses have it. */
import { shellWord } from './escape.ts'

/** A command of this program, without the flags that select the installation. */
export interface DmsCommand {
  /** arguments, quoted for a shell */
  readonly args: string
}

/** A text, a command, or a text with commands in it. */
export type Fix = string | DmsCommand | readonly (string | DmsCommand)[]

/** Creates a command, such as dms`labels create ${name}`. Quotes each value as one word for a shell. */
export const dms = (literals: TemplateStringsArray, ...values: readonly string[]): DmsCommand => ({
  args: String.raw({ raw: literals }, ...values.map(shellWord)),
})

/** Formats a fix as one line. `formatCommand` completes the arguments of each command. */
export const formatFix = (fix: Fix, formatCommand: (args: string) => string): string =>
  [fix]
    .flat()
    .map((part) => (typeof part === 'string' ? part : `dms ${formatCommand(part.args)}`))
    .join('')
