/** The pages of `dms help TOPIC`. */
import { exits } from './exit.ts'

export const topics: Readonly<Record<string, () => string | Promise<string>>> = { 'exit-codes': exitCodes, environment, output }

function exitCodes(): string {
  const rows = Object.entries(exits).map(([name, [code, meaning]]) => `${String(code).padStart(4)}  ${name.padEnd(11)}  ${meaning}`)
  return `Exit codes. They are stable: new ones may be added, and an unknown one means failure.\n\n${rows.join('\n')}\n`
}

async function environment(): Promise<string> {
  const { settings } = await import('../config.ts')
  const rows = [...settings].map(([key, { env, secret }]) => [secret ? `${env}, ${env}_FILE` : env, key] as const)
  return `Variables of the command line. Yes or no: 1/0, true/false, yes/no, on/off.

${columns(commandLine)}

Variables of the configuration, each before config.toml and after a flag. NAME_FILE names a file that holds the secret.

${columns(rows)}
`
}

const commandLine = [
  ['DMS_CONFIG', 'the configuration file (-c)'],
  ['DMS_URL', 'the server to talk to (--url)'],
  ['DMS_TOKEN, DMS_TOKEN_FILE', 'the token for it'],
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
  -o table   columns for people, cut to the width of the terminal
  -o wide    the same with more columns
  -o tsv     separated by tabs, not cut; with headings on a terminal only (--header, --no-header)
  -o csv     RFC 4180, with headings
  -o json    an array, or one object; the names are those of the API
  -o jsonl   one object a line; batches stream their items and end with one line of type "summary"
  -o id      ids only, one a line, for xargs

--fields A,B chooses columns, or fields in json, and their order. Control characters in tables, tsv and csv are
written out (\\n, \\x1b). With json and jsonl an error is one line of JSON on standard error:

  {"error":{"code":"…","message":"…","details":{},"timestamp":"…","request_id":null},"exit_code":6}
`
}
