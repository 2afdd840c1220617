import type { Command } from 'commander'
import { manual } from '../src/cli/output/manual.ts'
import { contextColumns, contextRows, printContext } from '../src/cli/remote/context-rows.ts'
import { type Context, contextNamed } from '../src/cli/remote/contexts.ts'
import { changeContexts, readContexts } from '../src/cli/remote/contexts-file.ts'
import { keepCredential, readCredentials, whileLocked } from '../src/cli/remote/credentials.ts'
import type { Cli } from '../src/cli/runtime/context.ts'
import { usage } from '../src/cli/runtime/exit.ts'

export const logout = (cli: Cli): Command =>
  manual('logout [context]', {
    summary: 'End the session of a context and forget its credentials',
    examples: [
      ['logout', 'the current context'],
      ['logout prod', ''],
      ['logout --all', 'every context'],
    ],
    notes: ['Removes the token and the saved password source. The context itself stays; to delete it: dms context remove.'],
    exits: '0 signed out, or was not signed in · 3 forgotten here, but the server did not answer · 6 no such context',
  })
    .option('--all', 'every context')
    .action(async (given: string | undefined, { all }: { all?: boolean }) => {
      if (all && given !== undefined) throw usage('a context and --all exclude each other')
      const contexts = await readContexts(cli.env)
      const names = all ? [...contexts.known.keys()] : [given ?? nameInUse(cli)]
      for (const name of names) await end(cli, name, contextNamed(contexts, name))
      const rows = (await contextRows(await readContexts(cli.env), cli.env)).filter(({ name }) => names.includes(name))
      const sentence = names.map((name) => `✓ signed out of ${name}`)
      if (all) cli.print(rows, { columns: contextColumns, id: 'name', sentence })
      else printContext(cli, rows[0], sentence)
    })

function nameInUse(cli: Cli): string {
  const { name, context } = cli.target
  if (!context) throw usage('which context?', 'dms logout NAME, or --all')
  return name
}

async function end(cli: Cli, name: string, context: Context): Promise<void> {
  if (cli.options.printCurl) {
    const { curlClient } = await import('../src/cli/remote/print-curl.ts')
    await curlClient({ url: context.url, caFile: context.ca_file ?? null }, cli.write).auth.logout()
  }
  await whileLocked(cli.env, async () => {
    const held = (await readCredentials(cli.env))[name]
    await keepCredential(cli.env, name, undefined)
    if (held?.url === context.url) await revoke(cli, name, context, held.token)
  })
  await changeContexts(cli.env, ({ current, known }) => {
    const { password_file: _file, password_command: _command, ...rest } = known.get(name) ?? context
    return { current, known: new Map([...known, [name, rest]]) }
  })
}

/** On the server, so that a copy of the token is worth nothing either. */
async function revoke(cli: Cli, name: string, context: Context, token: string): Promise<void> {
  const { strangerThere } = await import('../src/cli/remote/remote.ts')
  const target = { name, url: context.url, context, isByUrl: false, caFile: context.ca_file ?? null }
  const client = await strangerThere(target, cli.way, token)
  try {
    await client.auth.logout()
  } catch (error) {
    // It had ended already.
    if ((error as { status?: unknown }).status === 401) return
    cli.warn(`warning: ${name} could not be told (${(error as Error).message}): until the token ends, a copy of it is still good`)
    cli.exit = 'PARTIAL'
  } finally {
    await client.close()
  }
}
