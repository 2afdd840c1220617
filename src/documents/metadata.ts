/** What users write into a document's metadata. */
import { invalid } from '../errors.ts'

const maxBytes = 64 << 10
const maxDepth = 32

/** Applies a merge patch (RFC 7396): null removes a key, objects are merged, everything else replaces. Throws VALIDATION_ERROR past 64 KiB or 32 levels. */
export function merge(current: Record<string, unknown>, patch: Record<string, unknown>): Record<string, unknown> {
  const merged = mergeValue(current, patch, 0) as Record<string, unknown>
  if (Buffer.byteLength(JSON.stringify(merged)) > maxBytes) throw invalid('metadata', `larger than ${maxBytes} bytes`)
  return merged
}

function mergeValue(target: unknown, patch: unknown, depth: number): unknown {
  if (depth > maxDepth) throw invalid('metadata', `nested more than ${maxDepth} deep`)
  if (!isObject(patch)) return patch
  // Entries, not assignment: a key such as __proto__ stays a plain key.
  const result = new Map(isObject(target) ? Object.entries(target) : [])
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) result.delete(key)
    else result.set(key, mergeValue(result.get(key), value, depth + 1))
  }
  return Object.fromEntries(result)
}

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null && !Array.isArray(value)
