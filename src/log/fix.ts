/** Advice that solves a problem, as errors and diagnoses have it. */
import { shellWord } from './escape.ts'

/** A command of this program, without the flags that select the installation. */
export interface DmsCommand {
  /** command, flags and arguments */
  readonly words: readonly string[]
  /** arguments that begin with `-`: they follow all flags, after `--` */
  readonly operands: readonly string[]
}

/** A text, a command, or a text with commands in it. */
export type Fix = string | DmsCommand | readonly (string | DmsCommand)[]

/** Creates a command, such as dms`labels create ${name}`. Each value is one word, and no argument becomes a flag. */
export function dms(literals: TemplateStringsArray, ...values: readonly string[]): DmsCommand {
  const words: string[] = []
  const operands: string[] = []
  for (const [index, literal] of literals.entries()) {
    words.push(...literal.split(' ').filter((word) => word !== ''))
    const value = values[index]
    if (value === undefined) continue
    const isOperand = value.startsWith('-') && !words.at(-1)?.startsWith('--')
    if (isOperand) operands.push(value)
    else words.push(value)
  }
  return { words, operands }
}

/** Formats a fix as one line, quoted for a shell. `flagsFor` returns the flags that are added to a command. */
export const formatFix = (fix: Fix, flagsFor: (words: readonly string[]) => readonly string[] = () => []): string =>
  [fix]
    .flat()
    .map((part) => (typeof part === 'string' ? part : formatCommand(part, flagsFor(part.words))))
    .join('')

const formatCommand = ({ words, operands }: DmsCommand, flags: readonly string[]): string =>
  ['dms', ...words, ...flags, ...(operands.length > 0 ? ['--', ...operands] : [])].map(shellWord).join(' ')
