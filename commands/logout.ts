import { manual } from '../src/cli/output/manual.ts'
import { contextColumns, listContextRows, printContext } from '../src/cli/remote/context-rows.ts'
import { type Context, findContext, localContext } from '../src/cli/remote/contexts.ts'
import { loadContexts, updateContexts } from '../src/cli/remote/contexts-file.ts'
import { loadCredentials, saveCredential, withCredentialsLock } from '../src/cli/remote/credentials.ts'
import type { Cli } from '../src/cli/runtime/context.ts'
import { usage } from '../src/cli/runtime/exit.ts'
import { dms } from '../src/log/fix.ts'

export const logout = (cli: Cli) =>
  manual('logout [context]', {
    summary: 'End the session of a context and forget its credentials',
    examples: [
      ['logout', 'the current context'],
      ['logout prod', ''],
      ['logout --all', 'every context'],
    ],
    notes: [
      'Removes the token and the saved password source. The context itself stays; to delete it: dms context remove.',
      'If it was the current context, local (this machine) becomes the current one. dms login makes it current again.',
    ],
    exits: '0 signed out, or was not signed in · 3 forgotten here, but the server did not answer · 6 no such context',
  })
    .option('--all', 'every context')
    .action(async (contextName: string | undefined, { all }: { all?: boolean }) => {
      if (all && contextName !== undefined) throw usage('a context and --all exclude each other')
      const contexts = await loadContexts(cli.env)
      const names = all ? [...contexts.byName.keys()] : [contextName ?? currentName(cli)]
      for (const name of names) await endSession(cli, name, findContext(contexts, name))
      const isCurrent = names.includes(contexts.current)
      const rows = (await listContextRows(await loadContexts(cli.env), cli.env)).filter(({ name }) => names.includes(name))
      const sentence = names.map((name) => `✓ Signed out of ${name}`)
      if (all) cli.print(rows, { columns: contextColumns, id: 'name', sentence })
      else printContext(cli, rows[0], sentence)
      if (isCurrent) cli.note('the current context is now local (this machine)')
    })

function currentName(cli: Cli): string {
  const { name, context } = cli.target
  if (!context) throw usage('no current context to sign out of', [dms`logout NAME`, ', or --all'])
  return name
}

async function endSession(cli: Cli, name: string, context: Context): Promise<void> {
  if (cli.options.printCurl) {
    const { createCurlClient } = await import('../src/cli/remote/curl-client.ts')
    await createCurlClient({ url: context.url, caFile: context.ca_file ?? null }, cli.write).auth.logout()
  }
  await withCredentialsLock(cli.env, async () => {
    const credential = (await loadCredentials(cli.env))[name]
    await saveCredential(cli.env, name, undefined)
    if (credential?.url === context.url) await revoke(cli, name, context, credential.token)
  })
  await updateContexts(cli.env, ({ current, byName }) => {
    const { password_file: _file, password_command: _command, ...rest } = byName.get(name) ?? context
    return { current: current === name ? localContext : current, byName: new Map([...byName, [name, rest]]) }
  })
}

/** Revokes the token on the server, which also disables copies of it. */
async function revoke(cli: Cli, name: string, context: Context, token: string): Promise<void> {
  const { openAnonymousClient } = await import('../src/cli/remote/remote-client.ts')
  const target = { name, url: context.url, context, isByUrl: false, caFile: context.ca_file ?? null }
  const client = await openAnonymousClient(target, cli.connectOptions, token)
  try {
    await client.auth.logout()
  } catch (error) {
    // The session has already ended.
    if ((error as { status?: unknown }).status === 401) return
    cli.warn(`warning: cannot end the session on ${name}: ${(error as Error).message}; copies of the token work until it expires`)
    cli.exit = 'PARTIAL'
  } finally {
    await client.close()
  }
}
