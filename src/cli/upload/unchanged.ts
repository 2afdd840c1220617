/** Uploaded files that the archive already had. */
import { dms } from '../../log/fix.ts'
import type { Cli } from '../runtime/context.ts'
import type { SendOptions } from './send.ts'

/** Flags that change new documents only. */
const flags = { labels: '--label', title: '--title', metadata: '--metadata', document_date: '--date' } as const

/** Notes the given flags that `count` documents did not get. */
export function noteIgnoredFlags(cli: Pick<Cli, 'note' | 'options'>, options: SendOptions['options'], count: number): void {
  const ignored = Object.entries(flags).flatMap(([name, flag]) => (options[name as keyof typeof flags] === undefined ? [] : [flag]))
  if (count > 0 && ignored.length > 0)
    cli.note(
      `${ignored.join(', ')}: only for new documents, not for the unchanged (${count}); fix: ${cli.options.formatFix(dms`documents update`)}`,
    )
}
