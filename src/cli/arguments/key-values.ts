import { usage } from '../runtime/exit.ts'

/** Parses `key=value` pairs into an object of strings. Throws Failure USAGE with the name of the flag. */
export function parseKeyValues(flag: string, pairs: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf('=')
      if (at < 1) throw usage(`${flag} ${pair}: not of the form KEY=VALUE`)
      return [pair.slice(0, at), pair.slice(at + 1)]
    }),
  )
}
