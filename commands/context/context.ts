import { resolve } from 'node:path'
import { Option } from 'commander'
import { group, manual } from '../../src/cli/output/manual.ts'
import { contextColumns, findContextRow, listContextRows, printContext } from '../../src/cli/remote/context-rows.ts'
import { type Context, findContext, localContext, parseContextName, parseServerUrl } from '../../src/cli/remote/contexts.ts'
import { loadContexts, updateContexts } from '../../src/cli/remote/contexts-file.ts'
import { loadCredentials, saveCredential, withCredentialsLock } from '../../src/cli/remote/credentials.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { Failure, usage } from '../../src/cli/runtime/exit.ts'
import { dms } from '../../src/log/fix.ts'

export const context = (cli: Cli) =>
  group('context', 'Manage saved servers', [list(cli), use(cli), show(cli), create(cli), rename(cli), remove(cli)])

const list = (cli: Cli) =>
  manual('list', {
    summary: 'List contexts',
    examples: [
      ['context list', ''],
      ['context list -o id', 'names only'],
    ],
    exits: '0 listed · 78 contexts.toml invalid',
    notes: ['"local" is this machine.'],
  })
    .alias('ls')
    .action(async () => cli.print(await listContextRows(await loadContexts(cli.env), cli.env), { columns: contextColumns, id: 'name' }))

const use = (cli: Cli) =>
  manual('use <context>', {
    summary: 'Set the current context',
    examples: [
      ['context use prod', ''],
      ['context use local', 'this machine'],
    ],
    notes: ['Commands that run on the server only ignore it.'],
    exits: '0 set · 6 no such context',
  }).action(async (name: string) => {
    await updateContexts(cli.env, (contexts) => {
      if (name !== localContext) findContext(contexts, name)
      return { ...contexts, current: name }
    })
    const sentence = `✓ The current context is now ${name}${name === localContext ? ' (this machine)' : ''}`
    printContext(cli, await findContextRow(cli.env, name), sentence)
  })

const show = (cli: Cli) =>
  manual('show [context]', {
    summary: 'Show a context (default: the current one)',
    examples: [
      ['context show', ''],
      ['context show prod -o json', ''],
    ],
    exits: '0 shown · 6 no such context',
  }).action(async (name = cli.target.name) => {
    if (name !== localContext) findContext(await loadContexts(cli.env), name)
    printContext(cli, await findContextRow(cli.env, name))
  })

const create = (cli: Cli) =>
  manual('create <name>', {
    summary: 'Save a server under a name, without signing in',
    examples: [
      ['context create prod --url https://dms.example.org', ''],
      ['context create prod --url https://dms.example.org --username svc --password-file /etc/dms/svc.pw', 'signs in at first use'],
    ],
    notes: ['--ca-file and --insecure-http are saved too.'],
    exits: '0 created · 2 --url missing or invalid · 7 name taken',
  })
    .usage('[options] <name> --url <url>')
    .option('--username <name>', 'user name or e-mail address')
    .addOption(new Option('--password-file <file>', 'file to read the password from').conflicts('passwordCommand'))
    .option('--password-command <command>', 'command that prints the password')
    .action(async (newName: string, flags: PasswordFlags) => {
      const name = parseContextName(newName)
      const context = parseContext(cli, flags)
      await updateContexts(cli.env, ({ current, byName }) => {
        if (byName.has(name))
          throw new Failure('CONFLICT', `context "${name}" exists`, { fix: [dms`context remove ${name}`, ', or choose another name'] })
        return { current, byName: new Map([...byName, [name, context]]) }
      })
      const sentence = `✓ Created context ${name} for ${context.url}; to use it: dms context use ${name}, or --context ${name}`
      printContext(cli, await findContextRow(cli.env, name), sentence)
    })

interface PasswordFlags {
  username?: string
  passwordFile?: string
  passwordCommand?: string
}

/** Returns the context that the flags describe. Throws Failure USAGE. */
function parseContext(cli: Cli, { username, passwordFile, passwordCommand }: PasswordFlags): Context {
  const { url, caFile, isInsecureAllowed } = cli.options.requestedTarget
  if (url === null) throw usage('the context needs a server', 'pass --url URL')
  if ((passwordFile ?? passwordCommand) !== undefined && username === undefined)
    throw usage('--password-file and --password-command need --username', 'pass --username NAME')
  return {
    url: parseServerUrl(url, { isInsecureAllowed }),
    username,
    password_file: passwordFile === undefined ? undefined : resolve(passwordFile),
    password_command: passwordCommand,
    ca_file: caFile === null ? undefined : resolve(caFile),
    insecure_http: isInsecureAllowed || undefined,
  }
}

const rename = (cli: Cli) =>
  manual('rename <context> <new>', {
    summary: 'Rename a context and keep its session',
    examples: [['context rename dms.example.org prod', '']],
    exits: '0 renamed · 6 no such context · 7 new name taken',
  }).action(async (old: string, newName: string) => {
    const name = parseContextName(newName)
    await updateContexts(cli.env, async (contexts) => {
      const context = findContext(contexts, old)
      if (contexts.byName.has(name)) throw new Failure('CONFLICT', `context "${name}" exists`)
      // The token moves first: after an interruption the old name only needs a new sign-in.
      await withCredentialsLock(cli.env, async () => {
        await saveCredential(cli.env, name, (await loadCredentials(cli.env))[old])
        await saveCredential(cli.env, old, undefined)
      })
      const byName = new Map([...contexts.byName].map((entry) => (entry[0] === old ? ([name, context] as const) : entry)))
      return { current: contexts.current === old ? name : contexts.current, byName }
    })
    printContext(cli, await findContextRow(cli.env, name), `✓ Renamed context ${old} to ${name}`)
  })

const remove = (cli: Cli) =>
  manual('remove <context>', {
    summary: 'Remove a context and its token',
    examples: [
      ['context remove prod', ''],
      ['dms logout prod && dms context remove prod', 'also ends the session on the server'],
    ],
    exits: '0 removed · 6 no such context',
  })
    .alias('rm')
    .action(async (name: string) => {
      let isCurrent = false
      const row = await findContextRow(cli.env, name)
      await updateContexts(cli.env, async (contexts) => {
        findContext(contexts, name)
        await withCredentialsLock(cli.env, () => saveCredential(cli.env, name, undefined))
        isCurrent = contexts.current === name
        const byName = new Map(contexts.byName)
        byName.delete(name)
        return { current: isCurrent ? localContext : contexts.current, byName }
      })
      printContext(cli, row, `✓ Removed context ${name}`)
      if (isCurrent) cli.note('the current context is now local (this machine)')
    })
