/** Flags of the command line that the commands of a printed fix repeat. */
import type { Command } from 'commander'
import { type Fix, formatFix } from '../../log/fix.ts'

/** Select the installation to work on. */
const targetFlags = ['--config', '--data-dir', '--local', '--context', '--url']
/** Are needed to connect to it. */
const connectionFlags = ['--ca-file', '--insecure-http']

/** Commands that name an installation by their arguments, or need none. */
const ownTargetCommands = ['context', 'help', 'login', 'logout']

/** Formats a fix. Its commands repeat the target flags of the command line, because users copy them. Never throws. */
export function formatFixFor(program: Command, fix: Fix): string {
  const repeat = (flags: readonly string[]): string[] =>
    program.options
      .filter(({ long }) => flags.includes(long ?? ''))
      .flatMap((option) => flagWords(option.short ?? option.long ?? '', program.opts()[option.attributeName()]))
  return formatFix(fix, (words) => [...(hasOwnTarget(words) ? [] : repeat(targetFlags)), ...repeat(connectionFlags)])
}

const hasOwnTarget = (words: readonly string[]): boolean =>
  ownTargetCommands.includes(words[0] ?? '') || words.some((word) => targetFlags.includes(word))

function flagWords(flag: string, value: unknown): string[] {
  if (value === undefined) return []
  // Such a URL is refused; a fix must not print its password.
  return value === true ? [flag] : [flag, String(value).replace(/^(\w+:\/\/)[^/]*@/, '$1')]
}
