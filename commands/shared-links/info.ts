import type { Command } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import { resolveSharedLink } from '../../src/cli/remote/shared-link-target.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'

export const sharedLinksInfo = (cli: Cli): Command =>
  manual('info <link>', {
    summary: 'Show the document behind a shared link',
    examples: [
      ['shared-links info https://dms.example.org/api/public/shared/kR3…', ''],
      ['shared-links info kR3… -o json | jq .requires_password', ''],
    ],
    exits: '0 shown · 2 not a link · 6 no such link, expired, revoked or used up · 69 server unreachable',
    notes: ['LINK is the token or the URL. Needs no account and does not count as a view.'],
  }).action(async (given: string) => {
    const { token, publicLinks } = await resolveSharedLink(cli, given)
    const columns = ['filename', 'title', 'size', 'mime_type', 'requires_password', 'expires_at', 'created_at'].map((name) => ({ name }))
    cli.print(await publicLinks.get(token), { columns, id: 'filename' })
  })
