import { resolve } from 'node:path'
import { type PasswordSource, readPassword } from '../src/cli/arguments/password-source.ts'
import { promptLine } from '../src/cli/arguments/prompt.ts'
import { readSecret } from '../src/cli/arguments/secret.ts'
import { manual } from '../src/cli/output/manual.ts'
import { columnsOf, rejectOutputFlags } from '../src/cli/output/output.ts'
import { type Context, type Contexts, parseContextName, parseServerUrl } from '../src/cli/remote/contexts.ts'
import { loadContexts, updateContexts } from '../src/cli/remote/contexts-file.ts'
import { type Credential, saveCredential, withCredentialsLock } from '../src/cli/remote/credentials.ts'
import { type RemoteTarget, rejectLocalFlags } from '../src/cli/remote/target.ts'
import type { Cli } from '../src/cli/runtime/context.ts'
import { Failure, usage } from '../src/cli/runtime/exit.ts'
import { dms } from '../src/log/fix.ts'

interface Flags {
  name?: string
  username?: string
  passwordStdin?: boolean
  passwordFile?: string
  passwordCommand?: string
  savePasswordSource?: boolean
  withToken?: boolean
  web?: boolean
  store: boolean
  use: boolean
}

export const login = (cli: Cli) =>
  manual('login [url]', {
    summary: 'Sign in to a remote server and save it as a context',
    examples: [
      ['login https://dms.example.org', 'asks for name and password; the context is called dms.example.org'],
      ['login https://dms.example.org --name prod --username ana --password-stdin < pw', ''],
      [
        'login https://dms.example.org --name prod --username svc --password-file /etc/dms/svc.pw --save-password-source',
        'for cron: commands sign in again when the token expires',
      ],
      ['login https://dms.example.org --web', 'through a browser'],
      ['ssh dms1 dms users token svc | dms login https://dms.example.org --with-token', 'for servers with single sign-on only'],
      ['DMS_TOKEN=$(dms login https://dms.example.org --username svc --password-file pw --no-store)', 'writes no file'],
    ],
    notes: [
      'Tokens are kept in $XDG_STATE_HOME/dms/credentials.json (~/.local/state), mode 0600. Passwords are never stored: --save-password-source saves only the path or the command that gave the password.',
    ],
    exits:
      '0 signed in · 2 input was needed and could not be asked for · 4 wrong user name or password · 7 the context name belongs to another server · 69 server unreachable',
  })
    .option('--name <name>', 'context name (default: the context that has this URL, else the host name)')
    .option('--username <name>', 'user name or e-mail address')
    .option('--password-stdin', 'read the password from standard input')
    .option('--password-file <file>', 'read the password from a file')
    .option('--password-command <command>', 'run a shell command that prints the password')
    .option('--save-password-source', 'save that path or command, to sign in again without asking')
    .option('--with-token', 'read a session token or API token from standard input')
    .option('--web', 'sign in through a browser on this machine (single sign-on)')
    .option('--no-store', 'print the token and save nothing')
    .option('--no-use', 'keep the current context')
    .action(async (serverUrl: string | undefined, flags: Flags) => {
      if (!flags.store) rejectOutputFlags(cli.options, 'the token is printed alone')
      const contexts = await loadContexts(cli.env)
      const server = resolveServer(cli, serverUrl)
      rejectLocalFlags(cli.options, server.url)
      const name = chooseName(server.url, flags, contexts)
      const saved = contexts.byName.get(name)
      const source = parsePasswordSource(flags)
      const credential = await signIn(cli, server, flags, source, saved)
      if (!flags.store) {
        const { token, expires_at } = credential
        return cli.options.isJson ? cli.print({ token, expires_at }, { columns: [] }) : cli.write(`${token}\n`)
      }
      const { caFile, isInsecureAllowed } = cli.options.requestedTarget
      const context: Context = {
        ...saved,
        ...(flags.savePasswordSource ? source : {}),
        url: server.url,
        username: flags.username ?? saved?.username ?? credential.username,
        ca_file: caFile === null ? saved?.ca_file : resolve(caFile),
        insecure_http: isInsecureAllowed || saved?.insecure_http || undefined,
      }
      await withCredentialsLock(cli.env, () => saveCredential(cli.env, name, credential))
      await updateContexts(cli.env, (now) => ({
        current: flags.use ? name : now.current,
        byName: new Map([...now.byName, [name, context]]),
      }))
      printCredential(cli, name, credential)
    })

/** Returns the server from the argument, else that of the current context. */
function resolveServer(cli: Cli, serverUrl: string | undefined): RemoteTarget {
  const { requestedTarget } = cli.options
  if (requestedTarget.isLocal) throw usage('--local needs no sign-in', dms`login URL`)
  if (serverUrl !== undefined && (requestedTarget.url ?? requestedTarget.context) !== null)
    throw usage('the server is given twice', 'omit --url, --context and their variables')
  if (serverUrl === undefined) {
    const target = cli.target
    if (target.url === null) throw usage('no server given', dms`login https://dms.example.org`)
    return target
  }
  const url = parseServerUrl(serverUrl, requestedTarget)
  return { name: url, url, context: null, isByUrl: true, caFile: requestedTarget.caFile }
}

function chooseName(url: string, { name, username }: Flags, { byName, current }: Contexts): string {
  if (name !== undefined) {
    const other = byName.get(parseContextName(name))?.url ?? url
    if (other !== url)
      throw new Failure('CONFLICT', `context "${name}" belongs to ${other}`, {
        fix: ['choose another --name, or: ', dms`context remove ${name}`],
      })
    return name
  }
  const matches = [...byName].filter(([, context]) => context.url === url && (username === undefined || context.username === username))
  const match = matches.find(([each]) => each === current) ?? matches[0]
  if (match) return match[0]
  const { hostname, port } = new URL(url)
  const host = hostname.replace(/^\[|\]$/g, '').replaceAll(':', '-')
  const hostName = parseContextName(`${/^\w/.test(host) ? '' : 'ip'}${host}${port ? `-${port}` : ''}`)
  return byName.has(hostName) && username !== undefined ? parseContextName(`${username.replace(/[^\w.-]/g, '_')}-${hostName}`) : hostName
}

/** Returns the password source to save. Its path is absolute, because later commands run in other folders. */
function parsePasswordSource({ passwordFile, passwordCommand, passwordStdin, withToken, web, savePasswordSource }: Flags): PasswordSource {
  const passwordSources = [passwordFile !== undefined, passwordCommand !== undefined, passwordStdin, withToken, web].filter(Boolean)
  if (passwordSources.length > 1)
    throw usage('--password-file, --password-command, --password-stdin, --with-token and --web exclude each other')
  if (savePasswordSource && passwordFile === undefined && passwordCommand === undefined)
    throw usage('--save-password-source needs --password-file or --password-command')
  return { password_file: passwordFile === undefined ? undefined : resolve(passwordFile), password_command: passwordCommand }
}

async function signIn(
  cli: Cli,
  server: RemoteTarget,
  flags: Flags,
  source: PasswordSource,
  saved: Context | undefined,
): Promise<Credential> {
  const located = { ...server, caFile: server.caFile ?? saved?.ca_file ?? null }
  if (cli.options.printCurl) {
    const { createCurlClient } = await import('../src/cli/remote/curl-client.ts')
    const { auth } = createCurlClient(located, cli.write)
    await (flags.withToken ? auth.profile() : auth.login(flags.username ?? saved?.username ?? '', ''))
  }
  const { signInWithPassword, signInWithToken } = await import('../src/cli/remote/sign-in.ts')
  if (flags.web) return (await import('../src/cli/remote/browser-login.ts')).signInWithBrowser(cli, located)
  if (flags.withToken)
    return signInWithToken(located, cli.connectOptions, (await readSecret(cli.options, 'token', { isStdin: true })).trim())
  const username = flags.username ?? saved?.username ?? (await promptLine(cli.options, 'User name or e-mail address:', '--username'))
  const password =
    source.password_command === undefined
      ? await readSecret(cli.options, 'password', { isStdin: flags.passwordStdin, file: source.password_file })
      : await readPassword(source, cli.env, cli.options)
  return signInWithPassword(located, cli.connectOptions, username, password)
}

function printCredential(cli: Cli, context: string, { url, username, role, expires_at }: Credential): void {
  const until = expires_at === null ? '' : `, until ${new Date(expires_at).toLocaleString('sv')}`
  cli.print(
    { context, url, username, role, token_expires_at: expires_at },
    {
      columns: columnsOf(['context', 'url', 'username', 'role', 'token_expires_at']),
      id: 'context',
      sentence: `✓ Signed in to ${url} as ${username} (${role}), context ${context}${until}`,
    },
  )
}
