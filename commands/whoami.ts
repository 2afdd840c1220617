import { operator } from '../src/actor.ts'
import { manual } from '../src/cli/output/manual.ts'
import { columnsOf } from '../src/cli/output/output.ts'
import { notSignedInError } from '../src/cli/remote/session.ts'
import { rejectLocalFlags } from '../src/cli/remote/target.ts'
import type { Cli } from '../src/cli/runtime/context.ts'

export interface Whoami {
  readonly context: string
  /** Null for this machine. */
  readonly url: string | null
  readonly username: string
  readonly role: string
  /** Null if no token is needed or it does not expire. */
  readonly token_expires_at: string | null
}

export const whoami = (cli: Cli) =>
  manual('whoami', {
    summary: 'Show the current server and user',
    examples: [
      ['whoami', ''],
      ['--context prod whoami -o json | jq -r .token_expires_at', ''],
    ],
    exits: '0 shown · 4 not signed in · 69 server unreachable',
  }).action(async () => {
    const columns = [...columnsOf(['context', 'url']), { name: 'username', title: 'USER' }, ...columnsOf(['role', 'token_expires_at'])]
    cli.print(await loadWhoami(cli), { columns, id: 'username' })
  })

async function loadWhoami(cli: Cli): Promise<Whoami> {
  const { name, url, ...target } = cli.target
  if (url === null) {
    const { username, role } = cli.options.as === null ? operator : await (await cli.client()).auth.profile()
    return { context: name, url, username, role, token_expires_at: null }
  }
  rejectLocalFlags(cli.options, url)
  if (cli.options.printCurl) await (await cli.client()).auth.profile()
  const server = { ...target, name, url }
  const [{ openRemoteClient }, { parseTokenExpiry }] = await Promise.all([
    import('../src/cli/remote/remote-client.ts'),
    import('../src/cli/remote/sign-in.ts'),
  ])
  const client = await openRemoteClient(server, cli.connectOptions)
  try {
    const { username, role } = await client.auth.profile().catch((error) => {
      throw (error as { status?: unknown }).status === 401 ? notSignedInError(server, { isExpired: false }) : error
    })
    const account = await client.session.account()
    const token_expires_at = account ? account.expires_at : parseTokenExpiry((await client.session.token()) ?? '')
    return { context: name, url, username, role, token_expires_at }
  } finally {
    await client.close()
  }
}
