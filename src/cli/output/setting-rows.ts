/** Effective settings as rows. Secrets are hidden unless revealed. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { suggest } from '../../config/file.ts'
import type { LoadedConfig, Origin } from '../../config/load.ts'
import { settings } from '../../config/schema.ts'
import { usage } from '../runtime/exit.ts'

export interface SettingRow extends Origin {
  readonly key: string
  /** value as in config.toml; null for a hidden or unset secret */
  readonly value: unknown
  readonly secret: boolean
}

/** Files of the data folder with secrets that dms generates if they are not set. */
const generatedSecretFiles: ReadonlyMap<string, string> = new Map([
  ['auth.jwt_secret', 'jwt_secret'],
  ['sources.encryption_key', 'sources_key'],
])

export interface SettingRowOptions {
  /** a setting or a section; default: all */
  readonly key?: string | undefined
  readonly setOnly?: boolean
  readonly reveal?: boolean
}

/** Returns all settings, those of a section, or one. Throws Failure USAGE for an unknown key. */
export function listSettings(
  { config, origins }: LoadedConfig,
  { key, setOnly = false, reveal = false }: SettingRowOptions = {},
): SettingRow[] {
  const selected = [...settings].filter(([name]) => key === undefined || name === key || name.startsWith(`${key}.`))
  if (selected.length === 0) throw usage(`there is no setting ${key}${suggest(String(key), settings.keys())}`)
  const rows = selected.map(([name, { kind, secret }]) => {
    const value = getValue(config, name)
    const written = kind.write ? kind.write(value) : value
    return {
      key: name,
      value: secret && (!reveal || value === '') ? null : written,
      ...(origins.get(name) ?? { origin: 'default' as const, source: '' }),
      secret,
    }
  })
  return setOnly ? rows.filter(({ origin }) => origin !== 'default') : rows
}

/** Adds generated secrets and their files to the rows. */
export const addGeneratedSecrets = (
  { config }: LoadedConfig,
  rows: readonly SettingRow[],
  { reveal = false }: SettingRowOptions,
): SettingRow[] =>
  rows.map((row) => {
    const generated = row.origin === 'default' ? readGeneratedSecret(config, row.key) : null
    return generated ? { ...row, value: reveal ? generated.text : null, origin: 'file', source: generated.path } : row
  })

/** Returns null if the secret does not exist yet, and a null text if it is not readable. */
function readGeneratedSecret({ data_dir }: LoadedConfig['config'], key: string): { path: string; text: string | null } | null {
  const name = generatedSecretFiles.get(key)
  if (name === undefined) return null
  const path = join(data_dir, name)
  try {
    return { path, text: readFileSync(path, 'utf8').trim() }
  } catch (error) {
    return ['ENOENT', 'ENOTDIR'].includes(String((error as NodeJS.ErrnoException).code)) ? null : { path, text: null }
  }
}

/** Masks a secret: a URL without its password, else the length only. Returns an empty text for an unset one. */
export function maskSecret({ config }: LoadedConfig, key: string): string {
  const generated = readGeneratedSecret(config, key)
  const secret = String(getValue(config, key)) || generated?.text
  if (!secret) return generated ? '******' : ''
  const url = /^(\w+:\/\/)([^:@/?]*)(:[^@]*)?(@)?(.*)$/.exec(secret)
  if (!url) return `****** (${secret.length} chars)`
  const [, scheme = '', user = '', password, at = '', rest = ''] = url
  return `${scheme}${user}${password !== undefined && at ? ':******' : (password ?? '')}${at}${rest.replace(/([?&]password=)[^&]*/g, '$1******')}`
}

const getValue = (config: object, key: string): unknown =>
  key.split('.').reduce<unknown>((value, name) => (value as Record<string, unknown>)[name], config)
