/** Global flags and their variables as one typed object. */
import { type Command, Option } from 'commander'
import type { FlagSettings } from '../../config/load.ts'
import { parseBoolean } from '../../config/values.ts'
import type { Fix } from '../../log/fix.ts'
import { maxTimer, parseDurationFlag } from '../arguments/flag-values.ts'
import { type Format, formats, type RenderOptions } from '../output/output.ts'
import type { RequestedTarget } from '../remote/target.ts'
import { usage } from './exit.ts'
import { formatFixFor } from './fix-flags.ts'

export type ProgressMode = 'auto' | 'plain' | 'json' | 'none'

export interface GlobalOptions extends RenderOptions {
  /** format of -o or --json; null: none, auto, or that of DMS_OUTPUT */
  readonly formatFlag: Format | null
  /** json or jsonl */
  readonly isJson: boolean
  /** settings given as flags, by dotted key */
  readonly settings: FlagSettings
  /** configuration file (--config) */
  readonly config: string | undefined
  /** formats a fix; its commands repeat the target flags of the command line */
  readonly formatFix: (fix: Fix) => string
  /** server as flags and variables name it; `cli.target` is the server itself */
  readonly requestedTarget: RequestedTarget
  /** print requests as curl commands and send nothing */
  readonly printCurl: boolean
  /** user to act as on this machine; null: the operator */
  readonly as: string | null
  /** create a missing archive (--init) */
  readonly isInit: boolean
  readonly isQuiet: boolean
  /** --quiet without an output format: a successful action or check prints nothing */
  readonly isSilent: boolean
  /** 0, 1 (steps and stacks), 2 (HTTP and SQL) */
  readonly verbose: number
  readonly progress: ProgressMode
  /** prompts are possible: standard input and error are terminals, and --no-input is not given */
  readonly canPrompt: boolean
  /** limit of the whole command; null: none */
  readonly timeoutMs: number | null
}

export interface Terminal {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly stdin: { readonly isTTY?: boolean }
  readonly stdout: { readonly isTTY?: boolean; readonly columns?: number }
  readonly stderr: { readonly isTTY?: boolean }
}

/** Adds the flags to the program. Commander accepts them before and after the subcommand. */
export function addGlobalOptions(program: Command): void {
  const add = (group: string, ...options: Option[]): void => {
    for (const option of options) program.addOption(option.helpGroup(group))
  }
  add(
    'Target:',
    new Option('-c, --config <file>', 'configuration file (DMS_CONFIG)'),
    new Option('--data-dir <folder>', 'data folder (DMS_DATA_DIR)'),
    new Option('--init', 'create an archive in the data folder if it has none'),
    new Option('--local', 'work on this machine, ignoring the current context').conflicts(['url', 'context']),
    new Option('--context <context>', 'work on this saved server (DMS_CONTEXT; dms help contexts)').conflicts('url'),
    new Option('--url <url>', 'work on this server (DMS_URL; token: DMS_TOKEN, DMS_TOKEN_FILE)'),
    new Option('--ca-file <file>', 'trust these certificates (PEM) instead of the system’s (DMS_CA_FILE)'),
    new Option('--insecure-http', 'allow http:// to other machines (DMS_INSECURE_HTTP)'),
    new Option('--print-curl', 'print the requests as curl commands and send nothing'),
    new Option('--as <user>', 'act as this user, on this machine only (DMS_AS)'),
    new Option('--timeout <duration>', 'limit for the whole command, e.g. 90s or 15m (DMS_TIMEOUT)'),
  )
  add(
    'Output:',
    new Option('-o, --output <format>', 'output format (DMS_OUTPUT)').choices(['auto', ...formats]),
    new Option('--json', 'same as -o json').conflicts('output'),
    new Option('--fields <names>', 'select and order fields, separated by commas'),
    new Option('--header', 'print a header line'),
    new Option('--no-header', 'omit the header line'),
    new Option('-q, --quiet', 'print nothing on success, except queries and -o (DMS_QUIET)'),
    new Option('-v, --verbose', 'print steps; twice: also HTTP and SQL (DMS_VERBOSE)').argParser(
      (_: unknown, count: number | undefined) => (count ?? 0) + 1,
    ),
    new Option('--log-level <level>', 'log level (DMS_LOG_LEVEL)').choices(['trace', 'debug', 'info', 'warn', 'error']),
    new Option('--log-format <format>', 'log format (DMS_LOG_FORMAT)').choices(['auto', 'pretty', 'logfmt', 'json']),
    new Option('--progress <mode>', 'progress on standard error (DMS_PROGRESS)').choices(['auto', 'plain', 'json', 'none']),
    new Option('--color <when>', 'colours (DMS_COLOR, NO_COLOR, FORCE_COLOR)').choices(['auto', 'always', 'never']),
    new Option('--no-color', 'same as --color never'),
    new Option('--no-input', 'never ask (DMS_NO_INPUT)'),
  )
}

/** Reads the parsed flags, and variables for the others. Throws Failure USAGE for an invalid variable. */
export function readGlobalOptions(program: Command, terminal: Terminal): GlobalOptions {
  const { env, stdout, stderr } = terminal
  const opts = program.opts<Record<string, unknown>>()
  const readFlag = (name: string): string | undefined => (typeof opts[name] === 'string' ? opts[name] : undefined)
  // An unset variable of a script: --data-dir would mean the default folder.
  const empty = program.options.find((option) => opts[option.attributeName()] === '')
  if (empty) throw usage(`${empty.long}: the value is empty`)
  const isTerminal = stdout.isTTY === true
  const outputFlag = opts.json ? 'json' : (readFlag('output') as Format | 'auto' | undefined)
  const output = outputFlag ?? oneOf(env, 'DMS_OUTPUT', ['auto', ...formats]) ?? 'auto'
  const timeout = readFlag('timeout') ?? (env.DMS_TIMEOUT || undefined)
  const isQuiet = opts.quiet === true || flag(env, 'DMS_QUIET')
  const format = output === 'auto' ? (isTerminal ? 'table' : 'tsv') : output
  const fields = readFlag('fields')
  if (fields !== undefined && format === 'id') throw usage('--fields has no effect: -o id prints ids alone', 'omit it, or pass -o tsv')
  return {
    settings: { data_dir: readFlag('dataDir'), 'log.level': readFlag('logLevel'), 'log.format': readFlag('logFormat') },
    config: readFlag('config'),
    formatFix: (fix) => formatFixFor(program, fix),
    requestedTarget: readRequestedTarget(opts, readFlag, env),
    printCurl: opts.printCurl === true,
    as: readFlag('as') ?? (env.DMS_AS || null),
    format,
    formatFlag: outputFlag === undefined || outputFlag === 'auto' ? null : outputFlag,
    isJson: format === 'json' || format === 'jsonl',
    isHuman: isTerminal && output === 'auto',
    fields: fields?.split(',').map((name) => name.trim()) ?? null,
    header: typeof opts.header === 'boolean' ? opts.header : null,
    isInit: opts.init === true,
    isQuiet,
    isSilent: isQuiet && output === 'auto',
    verbose: typeof opts.verbose === 'number' ? opts.verbose : level(env),
    progress: (readFlag('progress') as ProgressMode | undefined) ?? oneOf(env, 'DMS_PROGRESS', ['auto', 'plain', 'json', 'none']) ?? 'auto',
    canPrompt: opts.input !== false && !flag(env, 'DMS_NO_INPUT') && stderr.isTTY === true && terminal.stdin.isTTY === true,
    timeoutMs:
      timeout === undefined ? null : parseDurationFlag(readFlag('timeout') === undefined ? 'DMS_TIMEOUT' : '--timeout', timeout, maxTimer),
    isTerminal,
    width: isTerminal ? terminalWidth(terminal) : Number.POSITIVE_INFINITY,
    color: useColor(opts.color === false ? 'never' : readFlag('color'), env, isTerminal),
  }
}

/** Flags override variables. Throws Failure USAGE if both variables are set. */
function readRequestedTarget(
  opts: Record<string, unknown>,
  readFlag: (name: string) => string | undefined,
  env: Terminal['env'],
): RequestedTarget {
  const byFlag = { url: readFlag('url'), context: readFlag('context') }
  const isByFlag = opts.local === true || byFlag.url !== undefined || byFlag.context !== undefined
  if (!isByFlag && env.DMS_URL && env.DMS_CONTEXT) throw usage('DMS_URL and DMS_CONTEXT are both set; use one of them')
  const { url = null, context = null } = isByFlag ? byFlag : { url: env.DMS_URL || null, context: env.DMS_CONTEXT || null }
  return {
    isLocal: opts.local === true || context === 'local',
    url,
    context,
    caFile: readFlag('caFile') ?? (env.DMS_CA_FILE || null),
    isInsecureAllowed: opts.insecureHttp === true || flag(env, 'DMS_INSECURE_HTTP'),
  }
}

/** Returns the width of the terminal. COLUMNS overrides it, as in the shell, if it is a positive number. */
export const terminalWidth = ({ env, stdout }: Pick<Terminal, 'env' | 'stdout'>): number =>
  Math.max(0, Number.parseInt(env.COLUMNS ?? '', 10)) || stdout.columns || 80

/** Follows no-color.org: a non-empty NO_COLOR disables colours. */
function useColor(asked: string | undefined, env: Terminal['env'], isTerminal: boolean): boolean {
  const when = asked ?? oneOf(env, 'DMS_COLOR', ['auto', 'always', 'never']) ?? 'auto'
  if (when !== 'auto') return when === 'always'
  if (env.NO_COLOR) return false
  if (env.FORCE_COLOR) return env.FORCE_COLOR !== '0'
  return isTerminal && env.TERM !== 'dumb'
}

function oneOf<const T extends string>(env: Terminal['env'], name: string, choices: readonly T[]): T | undefined {
  const value = env[name] || undefined
  if (value === undefined) return undefined
  const match = choices.find((choice) => choice === value)
  if (match === undefined) throw usage(`${name}: "${value}" is not one of ${choices.join(', ')}`)
  return match
}

function flag(env: Terminal['env'], name: string): boolean {
  const value = env[name] || 'no'
  const parsed = parseBoolean(value)
  if (parsed === undefined) throw usage(`${name}: "${value}" is neither true nor false`)
  return parsed
}

const level = (env: Terminal['env']): number =>
  /^[0-9]$/.test(env.DMS_VERBOSE ?? '') ? Number(env.DMS_VERBOSE) : Number(flag(env, 'DMS_VERBOSE'))
