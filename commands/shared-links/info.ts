import type { Command } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import { visitOf } from '../../src/cli/remote/link-visit.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'

export const sharedLinksInfo = (cli: Cli): Command =>
  manual('info <link>', {
    summary: 'Say what a shared link (token or address) leads to; needs no account, and counts no view.',
    examples: [
      ['shared-links info https://dms.example.org/api/public/shared/kR3…', ''],
      ['shared-links info kR3… -o json | jq .requires_password', ''],
    ],
    exits: '0 shown · 2 that is no link · 6 no such link, expired, withdrawn or used up · 69 unreachable',
  }).action(async (given: string) => {
    const { token, publicLinks } = await visitOf(cli, given)
    const columns = ['filename', 'title', 'size', 'mime_type', 'requires_password', 'expires_at', 'created_at'].map((name) => ({ name }))
    cli.print(await publicLinks.get(token), { columns, id: 'filename' })
  })
