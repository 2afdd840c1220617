/** Commands with help: description, examples, notes and exit codes. */
import { Command, Help } from 'commander'

export interface CommandHelp {
  /** one line, also shown in the list of commands */
  readonly summary: string
  /** command line (without "dms ", unless it is a pipeline) and its purpose */
  readonly examples: readonly (readonly [line: string, what: string])[]
  /** "0 done · 78 failed" */
  readonly exits?: string
  /** notes, one sentence per line */
  readonly notes?: readonly string[]
}

class DescribedCommand extends Command {
  manual: CommandHelp | null = null
}

/** Returns the help of a command, or null for a group. */
export const helpOf = (command: Command): CommandHelp | null => (command instanceof DescribedCommand ? command.manual : null)

/** Creates a command with help; `name` may include arguments: "show [key]". */
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

/** Wraps text as commander does. Keeps the lines of examples whole, because users copy them. */
export const wrapHelp: Help['boxWrap'] = (text, width) =>
  text
    .split('\n')
    .map((line) => (line.startsWith('  $ ') ? line : Help.prototype.boxWrap.call(plainHelp, line, width)))
    .join('\n')

/** Descriptions of flags are not wrapped in narrower terminals. */
export const minWidthToWrap = 20

const plainHelp = Object.assign(new Help(), { minWidthToWrap })

/** Puts command and purpose side by side if all lines fit into 80 columns, else the purpose above. */
function exampleLines(examples: CommandHelp['examples']): string[] {
  const lines = examples.map(([line, what]) => [`  $ ${line.includes('dms ') ? '' : 'dms '}${line}`, what] as const)
  const width = Math.max(...lines.map(([line]) => line.length))
  const sideBySide = lines.map(([line, what]) => `${line.padEnd(width)}  ${what}`.trimEnd())
  if (sideBySide.every(({ length }) => length <= 80)) return sideBySide
  return lines.flatMap(([line, what]) => (what === '' ? [line] : [`  # ${what}`, line]))
}

/** Creates a command that only has subcommands. */
export function group(name: string, summary: string, commands: readonly Command[]): Command {
  const command = new Command(name).summary(summary).description(summary).helpCommand(false)
  for (const each of commands) command.addCommand(each)
  return command
}
