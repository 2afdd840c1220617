/** The settings in force as rows, with secrets hidden unless they are to be seen. */
import { settings } from '../config.ts'
import { nearest } from '../config-file.ts'
import type { Loaded, Origin } from '../config-load.ts'
import { usage } from './exit.ts'

export interface SettingRow extends Origin {
  readonly key: string
  /** as config.toml would say it; null for a secret that stays hidden */
  readonly value: unknown
  readonly secret: boolean
}

export interface Wanted {
  readonly setOnly?: boolean
  readonly reveal?: boolean
}

/** All settings, those of one section, or one. Throws Failure USAGE where `key` is none of them. */
export function settingRows(
  { config, origins }: Loaded,
  key: string | undefined,
  { setOnly = false, reveal = false }: Wanted,
): SettingRow[] {
  const wanted = [...settings].filter(([name]) => key === undefined || name === key || name.startsWith(`${key}.`))
  if (wanted.length === 0) throw usage(`there is no setting ${key}${nearest(String(key), settings.keys())}`)
  const rows = wanted.map(([name, { kind, secret }]) => {
    const value = valueAt(config, name)
    const written = kind.write ? kind.write(value) : value
    return {
      key: name,
      value: secret && !reveal && value !== '' ? null : written,
      ...(origins.get(name) ?? { origin: 'default' as const, source: '' }),
      secret,
    }
  })
  return setOnly ? rows.filter(({ origin }) => origin !== 'default') : rows
}

/** What stands in place of a secret: the URL without its password, or only its length. */
export function masked({ config }: Loaded, key: string): string {
  const secret = String(valueAt(config, key))
  const url = /^(\w+:\/\/)([^:@/?]*)(:[^@]*)?(@)?(.*)$/.exec(secret)
  if (!url) return `****** (${secret.length} chars)`
  const [, scheme = '', user = '', password, at = '', rest = ''] = url
  return `${scheme}${user}${password !== undefined && at ? ':******' : (password ?? '')}${at}${rest.replace(/([?&]password=)[^&]*/g, '$1******')}`
}

const valueAt = (config: object, key: string): unknown =>
  key.split('.').reduce<unknown>((value, name) => (value as Record<string, unknown>)[name], config)
