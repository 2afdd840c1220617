import { Argument, type Command } from 'commander'
import { manual } from '../src/cli/output/manual.ts'
import { topics } from '../src/cli/output/topics.ts'
import type { Cli } from '../src/cli/runtime/context.ts'

/** `dms completion bash`: made from the tree of words, so that it knows what this dms knows. */
export const completion = (cli: Cli, whole: () => Promise<Command>): Command =>
  manual('completion', {
    summary: 'Print a script that completes commands, flags and values in a shell.',
    examples: [
      ['source <(dms completion bash)', 'in ~/.bashrc'],
      ['dms completion zsh > ~/.zfunc/_dms', 'in a folder of $fpath'],
      ['dms completion fish > ~/.config/fish/completions/dms.fish', ''],
    ],
    exits: '0 printed · 2 no such shell',
    notes: ['Packages install it as /usr/share/bash-completion/completions/dms and the like.'],
  })
    .addArgument(new Argument('<shell>', 'whose script').choices(['bash', 'zsh', 'fish']))
    .action(async (shell: keyof typeof scripts) => {
      const { wordOf } = await import('../src/cli/output/command-tree.ts')
      cli.write((await scripts[shell]())(wordOf(await whole()), Object.keys(topics)))
    })

const scripts = {
  bash: async () => (await import('../src/cli/output/completion/bash.ts')).bashScript,
  zsh: async () => (await import('../src/cli/output/completion/zsh.ts')).zshScript,
  fish: async () => (await import('../src/cli/output/completion/fish.ts')).fishScript,
}
