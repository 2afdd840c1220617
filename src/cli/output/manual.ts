/** What `--help` of one command says: what it does, then examples, then how it ends. */
import { Command, Help } from 'commander'

export interface CommandHelp {
  /** one line, also in the list of commands */
  readonly summary: string
  /** command line (the leading "dms " left out, unless it is more than one program) and what it is for */
  readonly examples: readonly (readonly [line: string, what: string])[]
  /** "0 fine · 78 something is wrong" */
  readonly exits?: string
  /** what else should be known, one sentence a line */
  readonly notes?: readonly string[]
}

class DescribedCommand extends Command {
  manual: CommandHelp | null = null
}

/** What a command was described with, or null for a word that only holds others. */
export const helpOf = (command: Command): CommandHelp | null => (command instanceof DescribedCommand ? command.manual : null)

/** A command with its manual; `name` may carry arguments: "show [key]". */
export function manual(name: string, text: CommandHelp): Command {
  const { summary, examples, exits, notes = [] } = text
  const [word = '', ...args] = name.split(' ')
  const command = new DescribedCommand(word)
  command.manual = text
  command
    .helpCommand(false)
    .summary(summary)
    .description([summary, '', 'Examples:', ...exampleLines(examples)].join('\n'))
  for (const arg of args) command.argument(arg)
  const after = [...notes, ...(exits ? [`Exit codes: ${exits}`] : []), every]
  return command.addHelpText('after', (context) => {
    const help = context.command.createHelp()
    const width = context.command.configureOutput().getOutHelpWidth?.() ?? 80
    return `\n${after.map((line) => help.boxWrap(line, width)).join('\n')}`
  })
}

const every = 'Flags of every command: dms --help · formats: dms help output · dms help exit-codes'

/** Commander's, but for the lines of examples: those are copied, and stay whole. */
export const wrapHelp: Help['boxWrap'] = (text, width) =>
  text
    .split('\n')
    .map((line) => (line.startsWith('  $ ') ? line : Help.prototype.boxWrap.call(plainHelp, line, width)))
    .join('\n')

/** Columns: below that descriptions of flags are not wrapped. */
export const minWidthToWrap = 20

const plainHelp = Object.assign(new Help(), { minWidthToWrap })

/** Side by side where a narrow terminal has the room, else what it is for comes above. */
function exampleLines(examples: CommandHelp['examples']): string[] {
  const lines = examples.map(([line, what]) => [`  $ ${line.includes('dms ') ? '' : 'dms '}${line}`, what] as const)
  const width = Math.max(...lines.map(([line]) => line.length))
  const sideBySide = lines.map(([line, what]) => `${line.padEnd(width)}  ${what}`.trimEnd())
  if (sideBySide.every(({ length }) => length <= 80)) return sideBySide
  return lines.flatMap(([line, what]) => (what === '' ? [line] : [`  # ${what}`, line]))
}

/** A word that only holds other words. */
export function group(name: string, summary: string, commands: readonly Command[]): Command {
  const command = new Command(name).summary(summary).description(summary).helpCommand(false)
  for (const each of commands) command.addCommand(each)
  return command
}
