import { Argument, type Command } from 'commander'
import { buildCommandTree, nameKinds } from '../src/cli/output/command-tree.ts'
import { completeLine } from '../src/cli/output/completion/line.ts'
import { manual } from '../src/cli/output/manual.ts'
import { topics } from '../src/cli/output/topics.ts'
import { loadContexts } from '../src/cli/remote/contexts-file.ts'
import type { Cli } from '../src/cli/runtime/context.ts'

type Kind = (typeof nameKinds)[number]

/** Hidden command of the completion scripts. Prints nothing if there is no answer, because an error would appear in the middle of a line. */
export const complete = (cli: Cli, loadAll: () => Promise<Command>) =>
  manual('complete', {
    summary: 'List names or complete a line for completion scripts',
    examples: [
      ['complete label', 'of the current server'],
      ['complete user -- --context prod users get a', 'of the server of a typed line'],
      ['complete line -- documents list .--la', 'the last word follows a dot; prints values, tab, descriptions'],
    ],
    exits: '0 always',
  })
    .addArgument(new Argument('<kind>').choices([...nameKinds, 'line']))
    .argument('[word...]')
    .action(async (kind: Kind | 'line', words: string[]) => {
      if (kind === 'line') return writeSuggestions(cli, await loadAll(), words)
      const names = await listNames(cli, kind, words.at(-1) ?? '').catch(() => [])
      cli.write(names.map((name) => `${oneLine(name)}\n`).join(''))
    })

const oneLine = (text: string): string => text.replaceAll(/[\r\n\t]/g, ' ')

async function writeSuggestions(cli: Cli, program: Command, words: readonly string[]): Promise<void> {
  const line = [...words.slice(0, -1), (words.at(-1) ?? '.').slice(1)]
  const { suggestions, names, before, typed } = completeLine(buildCommandTree(program), Object.keys(topics), line)
  const found = names === null ? [] : await listNames(cli, names, typed).catch(() => [])
  const named = found.filter((name) => name.startsWith(typed)).map((name) => ({ value: before + name, description: '' }))
  cli.write([...suggestions, ...named].map(({ value, description }) => `${oneLine(value)}\t${oneLine(description)}\n`).join(''))
}

async function listNames(cli: Cli, kind: Kind, prefix: string): Promise<string[]> {
  if (kind === 'context') return ['local', ...(await loadContexts(cli.env)).byName.keys()]
  const client = await cli.client()
  if (kind === 'label') return (await client.labels.list()).map(({ name }) => name)
  if (kind === 'hold') return (await client.holds.list({ released: false })).map(({ name }) => name)
  if (kind === 'source') return (await client.sources.list()).map(({ name }) => name)
  return (await client.users.page({ per_page: 100, ...(prefix === '' ? {} : { q: prefix }) })).data.map(({ username }) => username)
}
