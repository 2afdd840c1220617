/** One setting, and functions that build one of each kind. */
import * as kinds from './values.ts'

export interface Setting<T> {
  readonly kind: kinds.Kind<T>
  /** Environment variable. A secret may also come from the file named by `<env>_FILE`. */
  readonly env: string
  readonly fallback: T
  readonly secret: boolean
}

export const setting = <T>(kind: kinds.Kind<T>, fallback: unknown, env: string): Setting<T> => ({
  kind,
  env,
  fallback: kind.read(fallback, '/'),
  secret: false,
})
export const text = (fallback: string, env: string, isValid?: (text: string) => boolean, expected?: string) =>
  setting(kinds.textKind(isValid, expected), fallback, env)
/** Creates a setting of a text that is sent in a header of HTTP. */
export const header = (fallback: string, env: string) =>
  text(fallback, env, kinds.isHeaderText, 'text for a header (printable ASCII characters, no line breaks)')
export const path = (fallback: string, env: string) => setting(kinds.pathKind, fallback, env)
export const flag = (fallback: boolean, env: string) => setting(kinds.booleanKind, fallback, env)
export const integer = (fallback: number, env: string, min = 0, max = Number.MAX_SAFE_INTEGER) =>
  setting(kinds.integerKind(min, max), fallback, env)
/** Creates a setting of a duration. The default maximum is 24 days, the longest time of a timer. */
export const duration = (fallback: string, env: string, min = '0s', max = '24d') => setting(kinds.durationKind(min, max), fallback, env)
export const size = (fallback: string, env: string, min = '0B') => setting(kinds.sizeKind(min), fallback, env)
export const choice = <const T extends string>(choices: readonly T[], fallback: NoInfer<T>, env: string) =>
  setting(kinds.choiceKind(choices), fallback, env)
export const list = (item: kinds.Kind<string>, fallback: string[], env: string) => setting(kinds.listKind(item), fallback, env)
export const secret = (one: Setting<string>): Setting<string> => ({ ...one, secret: true })
