import type { Command } from 'commander'
import { manual } from '../src/cli/output/manual.ts'
import { rejectOutputFlags } from '../src/cli/output/output.ts'
import { wrapPage } from '../src/cli/output/pager.ts'
import { topics } from '../src/cli/output/topics.ts'
import type { Cli } from '../src/cli/runtime/context.ts'
import { usage } from '../src/cli/runtime/exit.ts'
import { dms } from '../src/log/fix.ts'

/** Replaces commander's help command, which accepts only one word. */
export const help = (cli: Cli, loadAll: () => Promise<Command>) =>
  manual('help [command...]', {
    summary: 'Show help for a command or a topic',
    examples: [
      ['help documents upload', 'equals dms documents upload --help'],
      ['help exit-codes', ''],
    ],
    notes: [`Topics: ${Object.keys(topics).join(', ')}.`],
    exits: '0 shown · 2 no such command or topic',
  }).action(async (words: string[]) => {
    rejectOutputFlags(cli.options, 'help is text')
    const topic = words.length === 1 ? topics[words[0] ?? ''] : undefined
    const text = topic ? wrapPage(await topic(), cli.options.width) : renderHelp(findCommand(await loadAll(), words))
    if (cli.options.isJson) cli.print({ about: words.join(' '), text }, { columns: [] })
    else cli.write(text)
  })

/** Returns the help text with the parts that commander adds before and after it. */
function renderHelp(command: Command): string {
  let text = ''
  const writeOut = (part: string): void => {
    text += part
  }
  command.configureOutput({ writeOut }).outputHelp()
  return text
}

function findCommand(program: Command, words: readonly string[]): Command {
  let command = program
  for (const word of words) {
    const next = command.commands.find((each) => each.name() === word || each.aliases().includes(word))
    if (!next) throw usage(`unknown command or topic "${words.join(' ')}"`, dms`help`)
    command = next
  }
  return command
}
