/** Metadata of documents: JSON merge patches within limits. */
import { invalid } from '../errors.ts'

const maxBytes = 64 << 10
const maxDepth = 32

/** Applies a JSON merge patch (RFC 7396). Throws VALIDATION_ERROR if the result exceeds 64 KiB or 32 levels of nesting. */
export function mergeMetadata(current: Record<string, unknown>, patch: Record<string, unknown>): Record<string, unknown> {
  const merged = mergeValue(current, patch, 0) as Record<string, unknown>
  if (Buffer.byteLength(JSON.stringify(merged)) > maxBytes) throw invalid('metadata', `larger than ${maxBytes} bytes`)
  return merged
}

function mergeValue(target: unknown, patch: unknown, depth: number): unknown {
  if (depth > maxDepth) throw invalid('metadata', `nested more than ${maxDepth} deep`)
  if (!isObject(patch)) return patch
  // Collects entries instead of assigning keys: `__proto__` stays a plain key.
  const result = new Map(isObject(target) ? Object.entries(target) : [])
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) result.delete(key)
    else result.set(key, mergeValue(result.get(key), value, depth + 1))
  }
  return Object.fromEntries(result)
}

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null && !Array.isArray(value)
