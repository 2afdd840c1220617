/** The pages of `dms help TOPIC`. Lines indented by two spaces are columns; lines indented by four are printed as they are. */
import { exits } from '../runtime/exit.ts'

export const topics: Readonly<Record<string, () => string | Promise<string>>> = {
  'exit-codes': exitCodes,
  environment,
  output,
  contexts,
  cron,
}

function exitCodes(): string {
  const rows = Object.entries(exits).map(([name, [code, meaning]]) => `${String(code).padStart(4)}  ${name.padEnd(11)}  ${meaning}`)
  return `Exit codes are stable: new ones may be added, and an unknown one means failure.

${rows.join('\n')}

After the first SIGINT, SIGTERM or SIGHUP a command starts no new item, finishes the current ones, and prints its
summary. The second signal ends it at once. serve, worker and documents watch exit 0. events tail and --watch exit 0
after SIGINT (events tail with --until or --count: 130) and 143 after SIGTERM. SIGUSR1 prints the progress of a command
and logs the status of a server or worker.
`
}

async function environment(): Promise<string> {
  const { settings } = await import('../../config/schema.ts')
  const rows = [...settings].map(([key, { env, secret }]) => [secret ? `${env}, ${env}_FILE` : env, key] as const)
  return `Variables of the command line. Booleans are 1/0, true/false, yes/no or on/off.

${columns(commandLine)}

Variables of the configuration. A flag overrides a variable, and a variable overrides config.toml. NAME_FILE is the path of
a file with the secret.

${columns(rows)}
`
}

const commandLine = [
  ['DMS_CONFIG', 'configuration file (-c)'],
  ['DMS_CONTEXT', 'saved server to work on (--context)'],
  ['DMS_URL', 'server to work on (--url)'],
  ['DMS_TOKEN, DMS_TOKEN_FILE', 'token for DMS_URL and --url'],
  ['DMS_CA_FILE', 'trusted certificates (--ca-file)'],
  ['DMS_INSECURE_HTTP', 'allow http:// to other machines (--insecure-http)'],
  ['DMS_AS', 'user to act as on this machine (--as)'],
  ['DMS_OUTPUT', 'output format (-o)'],
  ['DMS_QUIET, DMS_VERBOSE', 'less or more output (-q, -v)'],
  ['DMS_PROGRESS', 'progress: auto, plain, json, none (--progress)'],
  ['DMS_COLOR, NO_COLOR, FORCE_COLOR', 'colours (--color)'],
  ['DMS_NO_INPUT', 'never ask (--no-input)'],
  ['DMS_USER_PASSWORD, DMS_USER_PASSWORD_FILE', 'new password for users add and users reset-password'],
  ['DMS_LINK_PASSWORD, DMS_LINK_PASSWORD_FILE', 'password for shared-links create and shared-links download'],
  ['DMS_TIMEOUT', 'limit for the whole command (--timeout)'],
  ['COLUMNS', 'width of tables'],
] as const

function columns(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([first]) => first.length))
  return rows.map(([first, second]) => `  ${first.padEnd(width)}  ${second}`).join('\n')
}

function output(): string {
  return `Results go to standard output. Progress, questions, logs and errors go to standard error.

  -o auto    table on a terminal, tsv elsewhere (default)
  -o table   columns, cut to the width of the terminal; ids are cut last
  -o wide    table with more columns
  -o tsv     tab-separated, not cut; header on a terminal only (--header, --no-header)
  -o csv     RFC 4180 with header; an apostrophe escapes spreadsheet formulas (= + - @)
  -o json    an array, or one object; field names of the API
  -o jsonl   one object per line; batches end with an object of type "summary"
  -o id      ids, one per line, for xargs

--fields A,B selects and orders columns or JSON fields. Control characters in table, tsv and csv are escaped (\\n,
\\x1b). --progress plain|json prints the progress to standard error; kill -USR1 prints it once. With json and jsonl an
error is one JSON object on standard error:

    {"error":{"code":"…","message":"…","details":{},"timestamp":"…","request_id":null},"exit_code":6}
`
}

function contexts(): string {
  return `Commands work on this machine or on a remote server. The first of these selects it:

  --local                  this machine
  --context NAME, --url U  saved server; any server
  DMS_CONTEXT, DMS_URL     the same, as variables
  dms context use NAME     current context
  local                    this machine, without HTTP, as the operator or the user of --as

"dms login URL --name prod" signs in and saves the context "prod". "dms context list" lists all contexts. Contexts are in
$XDG_CONFIG_HOME/dms/contexts.toml (~/.config), tokens in $XDG_STATE_HOME/dms/credentials.json (~/.local/state, mode
0600). --save-password-source saves the path or the command that gave the password. Then commands sign in again when the
token is missing, refused or about to expire, which cron needs.

--url and DMS_URL use the token of DMS_TOKEN or DMS_TOKEN_FILE, else that of the context with the same URL. Other
contexts ignore these variables.

Commands that run on the server only (serve, worker, migrate, …) ignore the current context. They exit 2 if a flag or a
variable selects a remote server.

An unreachable server is retried four times within about four seconds, if the request can safely be repeated. Then the
command exits 69. http:// to another machine needs --insecure-http, a private CA needs --ca-file. Invalid certificates
are never accepted.
`
}

function cron(): string {
  return `With -q a command prints only problems, on standard error, so cron sends mail only then. The exit code is the result of
the work. A second sync, import, backup, check, reindex or upload of the same folder exits 75 while the first one runs;
--lock-timeout waits instead. In a crontab % is written \\%.

    # /etc/cron.d/dms
    SHELL=/bin/bash
    PATH=/usr/local/bin:/usr/bin:/bin
    MAILTO=ops@example.org
    DMS_NO_INPUT=1
    */15 * * * *  dms  dms sources sync --due -q
    */5  * * * *  dms  dms worker --once --max-time 4m -q
    15 3 * * *    dms  dms backup create -q; dms backup prune --keep 14 -y -q
    0  4 * * 0    dms  dms check --sample 10\\% -q
    30 1 * * *    dms  dms users import /srv/hr/staff.csv --on-conflict update --rejects /var/lib/dms/rejects.csv -q
    */15 * * * *  scan dms --context prod documents upload -r /srv/scans -q

The worker line is for a server without a worker (serve --no-worker). The last line uploads to a remote server. Its user
signed in once and saved the password source:

    dms login https://dms.example.org --name prod --username scan --password-file ~/.dms-password --save-password-source

React to the kind of failure:

    dms documents upload -r ./in -q
    case $? in 0) ;; 3) echo "some files failed" ;; 69|75) exit 0 ;; *) exit 1 ;; esac
`
}
