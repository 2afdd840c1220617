import type { Command } from 'commander'
import { manual } from '../src/cli/output/manual.ts'
import type { Cli } from '../src/cli/runtime/context.ts'

/** `dms docs man` and `dms docs markdown`: hidden commands of the group `documents`, whose alias is `docs`. */
export const docs = (cli: Cli, loadAll: () => Promise<Command>): readonly Command[] => [
  manual('man', {
    summary: 'Write a manual page for each command',
    examples: [['docs man --dir /usr/local/share/man/man1', 'then read it: man dms-sources-sync']],
    exits: '0 written · 1 folder not writable · 2 --dir missing, or its folder cannot be created',
  })
    .requiredOption('--dir <folder>', 'target folder; created if missing')
    .action(async ({ dir }: Flags) => {
      const [{ formatManPage }, { readVersion: versionOfDms }, { exits }] = await Promise.all([
        import('../src/cli/output/man.ts'),
        import('../src/version.ts'),
        import('../src/cli/runtime/exit.ts'),
      ])
      await writePages(cli, await loadAll(), dir, '1', (word) => formatManPage(word, versionOfDms(), exits))
    }),
  manual('markdown', {
    summary: 'Write a Markdown page for each command',
    examples: [['docs markdown --dir site/commands', '']],
    exits: '0 written · 1 folder not writable · 2 --dir missing, or its folder cannot be created',
  })
    .requiredOption('--dir <folder>', 'target folder; created if missing')
    .action(async ({ dir }: Flags) => {
      const { formatMarkdownPage } = await import('../src/cli/output/markdown.ts')
      await writePages(cli, await loadAll(), dir, 'md', formatMarkdownPage)
    }),
]

/** Shows a command of `docs` in its help as users type it. */
export function withAliasInUsage(command: Command): Command {
  const createHelp = command.createHelp.bind(command)
  command.createHelp = () => Object.assign(createHelp(), { commandUsage: () => `dms docs ${command.name()} ${command.usage()}` })
  return command
}

interface Flags {
  dir: string
}

type CommandNode = import('../src/cli/output/command-tree.ts').CommandNode

async function writePages(cli: Cli, program: Command, dir: string, extension: string, page: (word: CommandNode) => string): Promise<void> {
  const [{ writeFile }, { join }, { createFolder }, { unusablePath }, { manPageName }, { flattenTree, buildCommandTree }] =
    await Promise.all([
      import('node:fs/promises'),
      import('node:path'),
      import('../src/folders.ts'),
      import('../src/cli/runtime/exit.ts'),
      import('../src/cli/output/man.ts'),
      import('../src/cli/output/command-tree.ts'),
    ])
  await createFolder(dir).catch((error: Error) => {
    throw unusablePath('--dir', dir, error)
  })
  const written: { path: string }[] = []
  for (const word of flattenTree(buildCommandTree(program))) {
    const path = join(dir, `${manPageName(word)}.${extension}`)
    await writeFile(path, page(word))
    written.push({ path })
  }
  cli.print(written, { columns: [{ name: 'path' }], id: 'path', isQuery: false })
}
