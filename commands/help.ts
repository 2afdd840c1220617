import type { Command } from 'commander'
import { manual } from '../src/cli/output/manual.ts'
import { fitted } from '../src/cli/output/pager.ts'
import { topics } from '../src/cli/output/topics.ts'
import type { Cli } from '../src/cli/runtime/context.ts'
import { usage } from '../src/cli/runtime/exit.ts'

const names = Object.keys(topics).join(', ')

/** `dms help sources sync`, `dms help exit-codes`: commander's own knows one word only. */
export const help = (cli: Cli, whole: () => Promise<Command>): Command =>
  manual('help [command...]', {
    summary: `Help about a command, or about a topic: ${names}.`,
    examples: [
      ['help documents upload', 'the same as dms documents upload --help'],
      ['help exit-codes', ''],
    ],
    exits: '0 shown · 2 no such command or topic',
  }).action(async (words: string[]) => {
    const topic = words.length === 1 ? topics[words[0] ?? ''] : undefined
    const text = topic ? fitted(await topic(), cli.options.width) : helpOf(find(await whole(), words))
    if (cli.options.isJson) cli.print({ about: words.join(' '), text }, { columns: [] })
    else cli.write(text)
  })

/** With what stands around it, which commander only writes. */
function helpOf(command: Command): string {
  let text = ''
  const writeOut = (more: string): void => {
    text += more
  }
  command.configureOutput({ writeOut }).outputHelp()
  return text
}

function find(program: Command, words: readonly string[]): Command {
  let command = program
  for (const word of words) {
    const next = command.commands.find((each) => each.name() === word || each.aliases().includes(word))
    if (!next) throw usage(`there is no command or topic "${words.join(' ')}"`, 'dms help')
    command = next
  }
  return command
}
