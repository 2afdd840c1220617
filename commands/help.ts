import { Command } from 'commander'
import type { Cli } from '../src/cli/context.ts'
import { usage } from '../src/cli/exit.ts'
import { topics } from '../src/cli/topics.ts'

const names = Object.keys(topics).join(', ')

/** `dms help sources sync`, `dms help exit-codes`: commander's own knows one word only. */
export const help = (cli: Cli, program: Command): Command =>
  new Command('help')
    .summary(`about a command, or one of: ${names}`)
    .description(`Help about a command, or about a topic: ${names}.`)
    .argument('[command...]')
    .action(async (words: string[]) => {
      const topic = words.length === 1 ? topics[words[0] ?? ''] : undefined
      if (topic) cli.write(await topic())
      else find(program, words).outputHelp()
    })

function find(program: Command, words: readonly string[]): Command {
  let command = program
  for (const word of words) {
    const next = command.commands.find((each) => each.name() === word || each.aliases().includes(word))
    if (!next) throw usage(`there is no command or topic "${words.join(' ')}"`, 'dms help')
    command = next
  }
  return command
}
