import { Argument } from 'commander'
import { nameKinds } from '../src/cli/output/command-tree.ts'
import { manual } from '../src/cli/output/manual.ts'
import { loadContexts } from '../src/cli/remote/contexts-file.ts'
import type { Cli } from '../src/cli/runtime/context.ts'

type Kind = (typeof nameKinds)[number]

/** Hidden command of the completion scripts. Prints nothing if there is no answer, because an error would appear in the middle of a line. */
export const complete = (cli: Cli) =>
  manual('complete', {
    summary: 'List names for completion',
    examples: [
      ['complete label', 'of the current server'],
      ['complete user -- --context prod users get a', 'of the server of a typed line'],
    ],
    exits: '0 always',
  })
    .addArgument(new Argument('<kind>').choices(nameKinds))
    .argument('[word...]')
    .action(async (kind: Kind, words: string[]) => {
      const names = await listNames(cli, kind, words.at(-1) ?? '').catch(() => [])
      cli.write(names.map((name) => `${name.replaceAll(/[\r\n]/g, ' ')}\n`).join(''))
    })

async function listNames(cli: Cli, kind: Kind, prefix: string): Promise<string[]> {
  if (kind === 'context') return ['local', ...(await loadContexts(cli.env)).byName.keys()]
  const client = await cli.client()
  if (kind === 'label') return (await client.labels.list()).map(({ name }) => name)
  if (kind === 'hold') return (await client.holds.list({ released: false })).map(({ name }) => name)
  if (kind === 'source') return (await client.sources.list()).map(({ name }) => name)
  return (await client.users.page({ per_page: 100, ...(prefix === '' ? {} : { q: prefix }) })).data.map(({ username }) => username)
}
