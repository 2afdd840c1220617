/** Lines of `key=value` pairs, as Grafana Loki and others read them. */
import { escapeControls } from './escape.ts'

/** Formats a line of JSON as logfmt. Members of objects have the name of their object and a dot before their own. */
export const formatLogfmt = (line: string): string => `${pairsOf(JSON.parse(line), '').join(' ')}\n`

function pairsOf(fields: object, prefix: string): string[] {
  return Object.entries(fields).flatMap(([key, value]: [string, unknown]) => {
    const name = prefix + key.replace(/[\s="\p{Cc}]/gu, '_')
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return pairsOf(value, `${name}.`)
    return [`${name}=${formatValue(value)}`]
  })
}

function formatValue(value: unknown): string {
  const text = Array.isArray(value) ? JSON.stringify(value) : String(value)
  const isPlain = text !== '' && !/[\s="\\\p{Cc}]/u.test(text)
  return isPlain ? escapeControls(text) : `"${escapeControls(text.replace(/["\\]/g, '\\$&'))}"`
}
