import { Argument, type Command } from 'commander'
import type { Cli } from '../src/cli/context.ts'
import { manual } from '../src/cli/manual.ts'
import { topics } from '../src/cli/topics.ts'

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
      const { wordOf } = await import('../src/cli/words.ts')
      cli.write((await scripts[shell]())(wordOf(await whole()), Object.keys(topics)))
    })

const scripts = {
  bash: async () => (await import('../src/cli/complete-bash.ts')).bashScript,
  zsh: async () => (await import('../src/cli/complete-zsh.ts')).zshScript,
  fish: async () => (await import('../src/cli/complete-fish.ts')).fishScript,
}
