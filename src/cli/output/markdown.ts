/** Manual pages in Markdown from the command tree. The output is deterministic. */
import type { CommandNode } from './command-tree.ts'
import { manPageName } from './man.ts'

/** Formats a page with links to the pages of its subcommands. */
export function formatMarkdownPage(word: CommandNode): string {
  const { path, manual, summary, usage, flags, words } = word
  return `${[
    `# ${path}`,
    text(`${summary}.`),
    code('sh', [`${path} ${usage}`]),
    ...(manual?.notes ?? []).map(text),
    ...(manual ? ['## Examples', code('sh', manual.examples.flatMap(example))] : []),
    ...(words.length > 0
      ? ['## Commands', words.map((each) => `- [${each.path}](${manPageName(each)}.md): ${text(each.summary)}`).join('\n')]
      : []),
    '## Options',
    flags.map((flag) => `- \`${flag.flags}\`: ${text(flag.description)}`).join('\n'),
    ...(manual?.exits
      ? [
          '## Exit status',
          manual.exits
            .split(' · ')
            .map((row) => `- ${text(row)}`)
            .join('\n'),
        ]
      : []),
    ...(path === 'dms' ? [] : ['Flags of every command: [dms](dms.md).']),
  ].join('\n\n')}\n`
}

const code = (language: string, lines: readonly string[]): string => [`\`\`\`${language}`, ...lines, '```'].join('\n')

const example = ([command, purpose]: readonly [string, string]): string[] => [
  ...(purpose === '' ? [] : [`# ${purpose}`]),
  `${command.includes('dms ') ? '' : 'dms '}${command}`,
]

/** Escapes special characters of Markdown. */
const text = (sentence: string): string => sentence.replace(/[\\`*_<>[\]#|]/g, '\\$&')
