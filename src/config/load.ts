/** Loads the configuration from flags, variables, secret files, config.toml and defaults, in this order of precedence. */
import { statSync } from 'node:fs'
import { homedir } from 'node:os'
import { isAbsolute, join } from 'node:path'
import { ConfigError, formatFileError } from '../errors.ts'
import { applyAwsVariables } from './aws-variables.ts'
import { type ReadFile, readFile } from './environment.ts'
import { defaultPublicUrl } from './exposure.ts'
import { type FileValues, readConfigFile, suggest } from './file.ts'
import { findFileProblems, findProblems, findWarnings } from './rules.ts'
import { type Config, settings } from './schema.ts'
import type { Setting } from './setting.ts'
import { InvalidValue } from './values.ts'

/** Settings given as flags, by dotted key; undefined: not given. */
export type FlagSettings = Readonly<Record<string, string | number | boolean | undefined>>

export interface ConfigSources {
  readonly flags?: FlagSettings
  readonly env?: Readonly<Record<string, string | undefined>>
  /** Configuration file that must exist. */
  readonly file?: string
  /** Home folder of the user. */
  readonly home?: string
  /** Folder of the system-wide config.toml. */
  readonly etc?: string
  /** Id of the user; 0 is root. */
  readonly uid?: number
  /** Data folder of the machine's service. */
  readonly machineData?: string
  /** Folder of the service's backups. */
  readonly machineBackups?: string
  /** Reads config.toml and secret files. */
  readonly readFile?: ReadFile
}

export interface Origin {
  readonly origin: 'default' | 'file' | 'env' | 'env_file' | 'flag'
  /** `file:line`, the variable, or '' for a default. */
  readonly source: string
}

export interface LoadedConfig {
  readonly config: Config
  readonly origins: ReadonlyMap<string, Origin>
  readonly warnings: readonly string[]
  /** Path of the configuration file in use. */
  readonly file: string | null
}

interface RawValue extends Origin {
  readonly value: unknown
  /** Location for error messages. */
  readonly place: string
  /** Folder for relative paths. */
  readonly base: string
}

/** Variables of the command line, which are not settings. */
const commandLineVariables = (
  'CONFIG CONTEXT URL TOKEN TOKEN_FILE AS OUTPUT QUIET VERBOSE PROGRESS COLOR NO_INPUT USER_PASSWORD USER_PASSWORD_FILE LINK_PASSWORD ' +
  'LINK_PASSWORD_FILE TIMEOUT CA_FILE INSECURE_HTTP'
)
  .split(' ')
  .map((name) => `DMS_${name}`)

/** Loads the configuration. Throws ConfigError with all problems. */
export function loadConfig(sources: ConfigSources): LoadedConfig {
  const { problems, flagProblems, ...loaded } = readAll(sources)
  if (flagProblems.length + problems.length > 0) throw new ConfigError([...flagProblems, ...problems], problems.length === 0)
  return loaded
}

interface InspectOptions {
  /** also check the files that the configuration names */
  readonly withFiles?: boolean
}

/** Loads the configuration with all its problems. Invalid settings get their defaults. */
export function inspectConfig(
  sources: ConfigSources,
  options: InspectOptions = {},
): LoadedConfig & { readonly problems: readonly string[] } {
  const { problems, flagProblems, ...loaded } = readAll(sources, options)
  return { ...loaded, problems: [...flagProblems, ...problems] }
}

interface Inspected extends LoadedConfig {
  /** invalid values of flags */
  readonly flagProblems: readonly string[]
  /** all other problems */
  readonly problems: readonly string[]
}

function readAll(sources: ConfigSources, { withFiles = false }: InspectOptions = {}): Inspected {
  const { env = {}, readFile: read = readFile } = sources
  const problems: string[] = []
  const flagProblems: string[] = []
  const warnings = unknownVariables(env)
  const file = readConfigFile(configFiles(sources), problems, read)
  if (file) warnings.push(...file.warnings)

  const values = new Map<string, unknown>()
  const origins = new Map<string, Origin>()
  const places = new Map<string, string>()
  for (const [key, setting] of settings) {
    const raw = findValue(key, setting, sources, file, problems)
    origins.set(key, { origin: raw?.origin ?? 'default', source: raw?.source ?? '' })
    if (raw) places.set(key, raw.place)
    values.set(key, raw ? readValue(setting, raw, raw.origin === 'flag' ? flagProblems : problems) : setting.fallback)
  }
  if (values.get('data_dir') === '') values.set('data_dir', defaultDataFolder(sources))
  if (values.get('backup.path') === '') values.set('backup.path', defaultBackupFolder(values.get('data_dir') as string, sources))

  const config = assemble(values)
  if (origins.get('server.public_url')?.origin === 'default') Object.assign(config.server, { public_url: defaultPublicUrl(config.server) })
  for (const [key, source] of applyAwsVariables(config.storage, env)) {
    origins.set(key, { origin: 'env', source })
    places.set(key, source)
    readValue(settings.get(key)!, { origin: 'env', source, place: source, value: env[source], base: '' }, problems)
  }
  const name = (key: string): string => places.get(key) ?? key
  problems.push(...findProblems(config, name), ...(withFiles ? findFileProblems(config, name) : []))
  warnings.push(...findWarnings(config, name))
  return { config, origins, warnings, flagProblems, problems, file: file?.path ?? null }
}

/** Returns the unparsed value of a setting with its location, or null. */
function findValue(
  key: string,
  setting: Setting<unknown>,
  sources: ConfigSources,
  file: FileValues | null,
  problems: string[],
): RawValue | null {
  const flag = sources.flags?.[key]
  if (flag !== undefined) {
    const value = typeof flag === 'string' ? setting.kind.fromText(flag) : flag
    return { origin: 'flag', source: 'command line', place: `${key} (command line)`, value, base: process.cwd() }
  }
  // An empty variable counts as not set, because compose files and service managers pass empty ones.
  const text = sources.env?.[setting.env] || undefined
  const fileName = setting.secret ? sources.env?.[`${setting.env}_FILE`] || undefined : undefined
  if (text !== undefined && fileName !== undefined) problems.push(`${setting.env} and ${setting.env}_FILE are both set; use one of them`)
  if (text !== undefined)
    return { origin: 'env', source: setting.env, place: setting.env, value: setting.kind.fromText(text), base: process.cwd() }
  if (fileName !== undefined) {
    const source = `${setting.env}_FILE=${fileName}`
    return {
      origin: 'env_file',
      source,
      place: source,
      value: readSecret(fileName, source, problems, sources.readFile),
      base: process.cwd(),
    }
  }
  return file?.find(key) ?? null
}

function readSecret(path: string, source: string, problems: string[], read = readFile): string {
  try {
    const secret = read(path).text.replace(/\r?\n$/, '')
    if (secret === '') problems.push(`${source}: the file is empty`)
    return secret
  } catch (error) {
    problems.push(formatFileError(`${source}: ${(error as Error).message}`))
    return ''
  }
}

function readValue(setting: Setting<unknown>, raw: RawValue, problems: string[]): unknown {
  try {
    return setting.kind.read(raw.value, raw.base)
  } catch (error) {
    if (!(error instanceof InvalidValue)) throw error
    problems.push(`${raw.place}: ${setting.secret ? 'the value' : JSON.stringify(raw.value)} ${error.message}`)
    return setting.fallback
  }
}

function assemble(values: ReadonlyMap<string, unknown>): Config {
  const config: Record<string, unknown> = {}
  for (const [key, value] of values) {
    const [section = '', name] = key.split('.')
    config[section] = name === undefined ? value : { ...(config[section] as object | undefined), [name]: value }
  }
  return config as Config
}

/** Returns candidates for the configuration file, by precedence. A file named by the user must exist. */
function configFiles({ file, env = {}, home = homedir(), etc = '/etc/dms' }: ConfigSources): { path: string; required: boolean }[] {
  const explicit = file ?? (env.DMS_CONFIG || undefined)
  if (explicit !== undefined) return [{ path: explicit, required: true }]
  return [join(xdgFolder(env.XDG_CONFIG_HOME) ?? join(home, '.config'), 'dms', 'config.toml'), join(etc, 'config.toml')].map((path) => ({
    path,
    required: false,
  }))
}

/** Returns the machine's data folder for root and for its owner, usually the user of the service. Returns a folder of the user otherwise. */
function defaultDataFolder({ env = {}, home = homedir(), uid = process.getuid?.(), machineData = '/var/lib/dms' }: ConfigSources): string {
  const isOfMachine = uid === 0 || (uid !== undefined && ownerOf(machineData) === uid)
  return isOfMachine ? machineData : join(xdgFolder(env.XDG_DATA_HOME) ?? join(home, '.local', 'share'), 'dms')
}

/** Returns the machine's backup folder for its data folder if both have the same owner. Returns a folder below the data folder otherwise. */
function defaultBackupFolder(
  dataDir: string,
  { machineData = '/var/lib/dms', machineBackups = '/var/backups/dms' }: ConfigSources,
): string {
  const owner = dataDir === machineData ? ownerOf(machineData) : undefined
  return owner !== undefined && owner === ownerOf(machineBackups) ? machineBackups : join(dataDir, 'backups')
}

const ownerOf = (folder: string): number | undefined => statSync(folder, { throwIfNoEntry: false })?.uid

/** Returns the default data folders of root and of this user. */
export const usualDataFolders = (sources: Pick<ConfigSources, 'env'>): string[] =>
  [0, -1].map((uid) => defaultDataFolder({ ...sources, uid }))

/** Ignores a relative path, as the XDG specification requires. */
const xdgFolder = (folder: string | undefined): string | undefined => (folder && isAbsolute(folder) ? folder : undefined)

function unknownVariables(env: Readonly<Record<string, string | undefined>>): string[] {
  const variables = new Set(commandLineVariables)
  for (const setting of settings.values()) variables.add(setting.env).add(setting.secret ? `${setting.env}_FILE` : setting.env)
  return Object.keys(env)
    .filter((name) => name.startsWith('DMS_') && !variables.has(name))
    .map((name) => `${name} is set but is not a dms variable${suggest(name, variables)}`)
}
