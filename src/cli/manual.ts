/** What `--help` of one command says: what it does, then examples, then how it ends. */
import { Command } from 'commander'

export interface Manual {
  /** one line, also in the list of commands */
  readonly summary: string
  /** command line (without the leading "dms ") and what it is for */
  readonly examples: readonly (readonly [line: string, what: string])[]
  /** "0 fine · 78 something is wrong" */
  readonly exits?: string
}

/** A command with its manual; `name` may carry arguments: "show [key]". */
export function manual(name: string, { summary, examples, exits }: Manual): Command {
  const [word = '', ...args] = name.split(' ')
  const width = Math.max(...examples.map(([line]) => line.length))
  const lines = examples.map(([line, what]) => `  $ dms ${line.padEnd(width)}  ${what}`.trimEnd())
  const command = new Command(word).summary(summary).description([summary, '', 'Examples:', ...lines].join('\n'))
  for (const arg of args) command.argument(arg)
  return command.addHelpText(
    'after',
    `\n${exits ? `Exit codes: ${exits}\n` : ''}Flags of every command: dms --help · formats: dms help output · dms help exit-codes`,
  )
}

/** A word that only holds other words. */
export function group(name: string, summary: string, commands: readonly Command[]): Command {
  const command = new Command(name).summary(summary).description(summary)
  for (const each of commands) command.addCommand(each)
  return command
}
