/** The pages of `dms help TOPIC`. Two spaces: columns; four: to be copied as it stands. */
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
  return `Exit codes. They are stable: new ones may be added, and an unknown one means failure.

${rows.join('\n')}

At the first SIGINT, SIGTERM or SIGHUP a command begins nothing new, ends what it is at, and prints its summary; at the
second it ends at once. serve, worker and documents watch are meant to be stopped: 0. events tail and --watch end with 0
after SIGINT (events tail with 130 where --until or --count did not come), and with 143 after SIGTERM. SIGUSR1 makes a
command say how far it is, and a server or worker what it is at.
`
}

async function environment(): Promise<string> {
  const { settings } = await import('../../config/schema.ts')
  const rows = [...settings].map(([key, { env, secret }]) => [secret ? `${env}, ${env}_FILE` : env, key] as const)
  return `Variables of the command line. Yes or no: 1/0, true/false, yes/no, on/off.

${columns(commandLine)}

Variables of the configuration, each before config.toml and after a flag. NAME_FILE names a file that holds the secret.

${columns(rows)}
`
}

const commandLine = [
  ['DMS_CONFIG', 'the configuration file (-c)'],
  ['DMS_CONTEXT', 'the saved server to work on (--context)'],
  ['DMS_URL', 'the server to work on (--url)'],
  ['DMS_TOKEN, DMS_TOKEN_FILE', 'the token for DMS_URL'],
  ['DMS_CA_FILE', 'certificates to trust (--ca-file)'],
  ['DMS_INSECURE_HTTP', 'allow http:// to other machines (--insecure-http)'],
  ['DMS_AS', 'the user to act as on this machine (--as)'],
  ['DMS_OUTPUT', 'format of the result (-o)'],
  ['DMS_QUIET, DMS_VERBOSE', 'less, more (-q, -v)'],
  ['DMS_PROGRESS', 'auto, plain, json, none (--progress)'],
  ['DMS_COLOR, NO_COLOR, FORCE_COLOR', 'colours (--color)'],
  ['DMS_NO_INPUT', 'never ask (--no-input)'],
  ['DMS_USER_PASSWORD, DMS_USER_PASSWORD_FILE', 'the new password for users add and users reset-password'],
  ['DMS_LINK_PASSWORD, DMS_LINK_PASSWORD_FILE', 'the password for shared-links create and shared-links download'],
  ['DMS_TIMEOUT', 'for the whole command (--timeout)'],
  ['COLUMNS', 'width of tables'],
] as const

function columns(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([first]) => first.length))
  return rows.map(([first, second]) => `  ${first.padEnd(width)}  ${second}`).join('\n')
}

function output(): string {
  return `Results go to standard output. Progress, questions, logs and errors go to standard error.

  -o auto    table on a terminal, tsv elsewhere (the default)
  -o table   columns for people, cut to the width of the terminal: times first, then texts; ids stay whole while they can
  -o wide    the same with more columns
  -o tsv     separated by tabs, not cut; with headings on a terminal only (--header, --no-header)
  -o csv     RFC 4180, with headings; a text that a spreadsheet would run as a formula (= + - @) begins with an apostrophe
  -o json    an array, or one object; the names are those of the API
  -o jsonl   one object a line; batches stream their items and end with one line of type "summary"
  -o id      ids only, one a line, for xargs

--fields A,B chooses columns, or fields in json, and their order. Control characters in tables, tsv and csv are
written out (\\n, \\x1b). How far a command is, --progress plain|json says on standard error, and SIGUSR1 makes it say
so at once (kill -USR1). With json and jsonl an error is one line of JSON on standard error:

    {"error":{"code":"…","message":"…","details":{},"timestamp":"…","request_id":null},"exit_code":6}
`
}

function contexts(): string {
  return `Commands work on this machine, or on a server elsewhere. The first of these that is there decides:

  --local                  this machine
  --context NAME, --url U  a saved server; any server
  DMS_CONTEXT, DMS_URL     the same
  dms context use NAME     the current context
  local                    this machine: without HTTP, as the operator, or as the user of --as

"dms login URL --name prod" signs in and saves the context "prod"; "dms context list" shows all. A context is kept in
$XDG_CONFIG_HOME/dms/contexts.toml (~/.config), its token in $XDG_STATE_HOME/dms/credentials.json (~/.local/state),
which only its owner can read. With --save-password-source the path or command that gave the password is kept, too,
and commands sign in again by themselves when the token is missing, refused or about to end: that is for cron.

--url and DMS_URL take their token from DMS_TOKEN or DMS_TOKEN_FILE, else from the context that has the same address.
Those two are for that URL alone; contexts have their own.

Commands that run on the server only (serve, worker, migrate, …) work on this machine whatever the current context
is, and end with 2 where another machine is asked for by a flag or a variable.

A server that is not reached is tried again four times within about four seconds, as long as nothing can be done
twice by it; then the command ends with 69. http:// to another machine needs --insecure-http; certificates of one's
own authority need --ca-file; certificates that are not valid are never accepted.
`
}

function cron(): string {
  return `Silent unless something is wrong: cron mails what is printed, and the exit code is that of the work, not of having asked
for it. Where a sync, an import, a backup, a check, a reindex or an upload of the same folder is going on already, the next one ends with 75; most can
wait for it (--lock-timeout). In a crontab % has to be written \\%.

    # /etc/cron.d/dms
    SHELL=/bin/bash
    PATH=/usr/local/bin:/usr/bin:/bin
    MAILTO=ops@example.org
    DMS_NO_INPUT=1
    */15 * * * *  dms  dms sources sync --due -q
    */5  * * * *  dms  dms worker --once --max-time 4m -q
    15 3 * * *    dms  dms backup create -q && dms backup prune --keep 14 -y -q
    0  4 * * 0    dms  dms check --sample 10\\% -q
    30 1 * * *    dms  dms users import /srv/hr/staff.csv --on-conflict update --rejects /var/lib/dms/rejects.csv -q
    */15 * * * *  scan dms --context prod documents upload -r /srv/scans -q

The worker is for a server that runs without (serve --no-worker). The last line works on a server elsewhere. Its user
signed in once, with the place of the password:

    dms login https://dms.example.org --name prod --username scan --password-file ~/.dms-password --save-password-source

Act on the kind of failure:

    dms documents upload -r ./in -q
    case $? in 0) ;; 3) echo "some files failed" ;; 69|75) exit 0 ;; *) exit 1 ;; esac
`
}
