import type { Command } from 'commander'
import { manual } from '../src/cli/output/manual.ts'
import type { Cli } from '../src/cli/runtime/context.ts'

/** `dms docs man` and `dms docs markdown`: hidden commands of the group `documents`, whose alias is `docs`. */
export const docs = (cli: Cli, loadAll: () => Promise<Command>): readonly Command[] => [
  manual('man', {
    summary: 'Write a manual page for each command',
    examples: [['docs man --dir /usr/local/share/man/man1', 'then read it: man dms-sources-sync']],
    exits: '0 written · 1 folder not writable · 2 --dir missing',
  })
    .requiredOption('--dir <folder>', 'target folder; created if missing')
    .action(async ({ dir }: Flags) => {
      const [{ manPage }, { readVersion: versionOfDms }, { exits }] = await Promise.all([
        import('../src/cli/output/man.ts'),
        import('../src/version.ts'),
        import('../src/cli/runtime/exit.ts'),
      ])
      await writePages(cli, await loadAll(), dir, '1', (word) => manPage(word, versionOfDms(), exits))
    }),
  manual('markdown', {
    summary: 'Write a Markdown page for each command',
    examples: [['docs markdown --dir site/commands', '']],
    exits: '0 written · 1 folder not writable · 2 --dir missing',
  })
    .requiredOption('--dir <folder>', 'target folder; created if missing')
    .action(async ({ dir }: Flags) => {
      const { markdownPage } = await import('../src/cli/output/markdown.ts')
      await writePages(cli, await loadAll(), dir, 'md', markdownPage)
    }),
]

interface Flags {
  dir: string
}

type Word = import('../src/cli/output/command-tree.ts').Word

async function writePages(cli: Cli, program: Command, dir: string, extension: string, page: (word: Word) => string): Promise<void> {
  const [{ mkdir, writeFile }, { join }, { pageName }, { allWords, wordOf }] = await Promise.all([
    import('node:fs/promises'),
    import('node:path'),
    import('../src/cli/output/man.ts'),
    import('../src/cli/output/command-tree.ts'),
  ])
  await mkdir(dir, { recursive: true })
  const written: { path: string }[] = []
  for (const word of allWords(wordOf(program))) {
    const path = join(dir, `${pageName(word)}.${extension}`)
    await writeFile(path, page(word))
    written.push({ path })
  }
  cli.print(written, { columns: [{ name: 'path' }], id: 'path' })
}
