import { resolve } from 'node:path'
import type { Command } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import { findContextRow, printContext } from '../../src/cli/remote/context-rows.ts'
import { type Context, parseContextName, parseServerUrl } from '../../src/cli/remote/contexts.ts'
import { updateContexts } from '../../src/cli/remote/contexts-file.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { Failure, usage } from '../../src/cli/runtime/exit.ts'

interface Flags {
  username?: string
  passwordFile?: string
  passwordCommand?: string
}

export const contextCreate = (cli: Cli): Command =>
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
    .option('--password-file <file>', 'file to read the password from')
    .option('--password-command <command>', 'command that prints the password')
    .action(async (given: string, { username, passwordFile, passwordCommand }: Flags) => {
      const { url, caFile, isInsecureAllowed } = cli.options.requestedTarget
      const name = parseContextName(given)
      if (url === null) throw usage('the context needs a server', 'pass --url URL')
      if (passwordFile !== undefined && passwordCommand !== undefined)
        throw usage('--password-file and --password-command exclude each other')
      if ((passwordFile ?? passwordCommand) !== undefined && username === undefined)
        throw usage('--password-file and --password-command need --username', 'pass --username NAME')
      const context: Context = {
        url: parseServerUrl(url, isInsecureAllowed),
        ...(username === undefined ? {} : { username }),
        ...(passwordFile === undefined ? {} : { password_file: resolve(passwordFile) }),
        ...(passwordCommand === undefined ? {} : { password_command: passwordCommand }),
        ...(caFile === null ? {} : { ca_file: resolve(caFile) }),
        ...(isInsecureAllowed ? { insecure_http: true } : {}),
      }
      await updateContexts(cli.env, ({ current, byName }) => {
        if (byName.has(name))
          throw new Failure('CONFLICT', `context "${name}" exists`, { fix: `dms context remove ${name}, or choose another name` })
        return { current, byName: new Map([...byName, [name, context]]) }
      })
      const sentence = `✓ Created context ${name} for ${context.url}; to use it: dms context use ${name}, or --context ${name}`
      printContext(cli, await findContextRow(cli.env, name), sentence)
    })
