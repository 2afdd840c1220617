import { Argument, type Command } from 'commander'
import { manual } from '../src/cli/output/manual.ts'
import { rejectOutputFlags } from '../src/cli/output/output.ts'
import { topics } from '../src/cli/output/topics.ts'
import type { Cli } from '../src/cli/runtime/context.ts'

/** Builds the script from the command tree of this version. */
export const completion = (cli: Cli, loadAll: () => Promise<Command>) =>
  manual('completion', {
    summary: 'Print a completion script for a shell',
    examples: [
      ['source <(dms completion bash)', 'in ~/.bashrc'],
      ['dms completion zsh > ~/.zfunc/_dms', 'in a folder of $fpath'],
      ['dms completion fish > ~/.config/fish/completions/dms.fish', ''],
      ['dms completion powershell | Out-String | Invoke-Expression', 'in $PROFILE'],
    ],
    exits: '0 printed · 2 unknown shell',
    notes: [
      'Completes commands, flags, values, and names of labels, users, sources and contexts. Packages install the script as /usr/share/bash-completion/completions/dms.',
    ],
  })
    .addArgument(new Argument('<shell>').choices(['bash', 'zsh', 'fish', 'powershell']))
    .action(async (shell: keyof typeof scripts) => {
      rejectOutputFlags(cli.options, 'the output is a shell script')
      const { buildCommandTree } = await import('../src/cli/output/command-tree.ts')
      cli.write((await scripts[shell]())(buildCommandTree(await loadAll()), Object.keys(topics)))
    })

const scripts = {
  bash: async () => (await import('../src/cli/output/completion/bash.ts')).bashScript,
  zsh: async () => (await import('../src/cli/output/completion/zsh.ts')).zshScript,
  fish: async () => (await import('../src/cli/output/completion/fish.ts')).fishScript,
  powershell: async () => (await import('../src/cli/output/completion/powershell.ts')).powershellScript,
}
