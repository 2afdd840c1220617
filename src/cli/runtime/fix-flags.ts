/** Flags of the command line that the commands of a printed fix repeat. */
import type { Command } from 'commander'
import { shellWord } from '../../log/escape.ts'
import { type Fix, formatFix } from '../../log/fix.ts'

/** Select the installation to work on. */
const targetFlags = ['--config', '--data-dir', '--local', '--context', '--url']
/** Are needed to connect to it. */
const connectionFlags = ['--ca-file', '--insecure-http']

/** Arguments that name an installation themselves, or need none. */
const ownTarget = new RegExp(`^(context|help|login|logout)\\b|(^| )(${targetFlags.join('|')}) `)

/** Formats a fix. Its commands repeat the target flags of the command line, because users copy them. Never throws. */
export function formatFixFor(program: Command, fix: Fix): string {
  const repeat = (flags: readonly string[]): string =>
    program.options
      .filter(({ long }) => flags.includes(long ?? ''))
      .map((option) => formatFlag(option.short ?? option.long, program.opts()[option.attributeName()]))
      .join('')
  return formatFix(fix, (args) => {
    const isOwn = ownTarget.test(args.replace(/'[^']*'/g, ''))
    return `${args}${isOwn ? '' : repeat(targetFlags)}${repeat(connectionFlags)}`
  })
}

function formatFlag(flag: string | undefined, value: unknown): string {
  if (value === undefined) return ''
  // Such a URL is refused; a fix must not print its password.
  return value === true ? ` ${flag}` : ` ${flag} ${shellWord(String(value).replace(/^(\w+:\/\/)[^/]*@/, '$1'))}`
}
