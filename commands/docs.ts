import type { Command } from 'commander'
import { manual } from '../src/cli/output/manual.ts'
import type { Cli } from '../src/cli/runtime/context.ts'

/** `dms docs man`, `dms docs markdown`: a page for each command, from the same tree as --help. `docs` is short for `documents` otherwise. */
export const docs = (cli: Cli, whole: () => Promise<Command>): readonly Command[] => [
  manual('man', {
    summary: 'Write a manual page for each command: dms.1, dms-sources-sync.1, …',
    examples: [['docs man --dir /usr/local/share/man/man1', 'then: man dms-sources-sync']],
    exits: '0 written · 1 the folder cannot be written to · 2 no folder named',
  })
    .requiredOption('--dir <folder>', 'where to write; made when it is missing')
    .action(async ({ dir }: Flags) => {
      const [{ manPage }, { versionOfDms }, { exits }] = await Promise.all([
        import('../src/cli/output/man.ts'),
        import('../src/version.ts'),
        import('../src/cli/runtime/exit.ts'),
      ])
      await write(cli, await whole(), dir, '1', (word) => manPage(word, versionOfDms(), exits))
    }),
  manual('markdown', {
    summary: 'Write a page of Markdown for each command: dms.md, dms-sources-sync.md, …',
    examples: [['docs markdown --dir site/commands', '']],
    exits: '0 written · 1 the folder cannot be written to · 2 no folder named',
  })
    .requiredOption('--dir <folder>', 'where to write; made when it is missing')
    .action(async ({ dir }: Flags) => {
      const { markdownPage } = await import('../src/cli/output/markdown.ts')
      await write(cli, await whole(), dir, 'md', markdownPage)
    }),
]

interface Flags {
  dir: string
}

type Word = import('../src/cli/output/command-tree.ts').Word

async function write(cli: Cli, program: Command, dir: string, ending: string, page: (word: Word) => string): Promise<void> {
  const [{ mkdir, writeFile }, { join }, { pageName }, { allWords, wordOf }] = await Promise.all([
    import('node:fs/promises'),
    import('node:path'),
    import('../src/cli/output/man.ts'),
    import('../src/cli/output/command-tree.ts'),
  ])
  await mkdir(dir, { recursive: true })
  const written: { path: string }[] = []
  for (const word of allWords(wordOf(program))) {
    const path = join(dir, `${pageName(word)}.${ending}`)
    await writeFile(path, page(word))
    written.push({ path })
  }
  cli.print(written, { columns: [{ name: 'path' }], id: 'path' })
}
