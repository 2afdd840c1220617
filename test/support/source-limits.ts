import type { SourceLimits } from '../../src/ports/source-type.ts'

/** Returns the limits of a source that may be on this machine, for files up to 10 MB and without a minimum rate. */
export const sourceLimits = (changes: Partial<SourceLimits> = {}): SourceLimits => ({
  concurrency: 4,
  timeoutMs: 30_000,
  maxFileBytes: 10_000_000,
  minBytesPerSecond: 0,
  allowPrivateNetworks: true,
  localRoots: [],
  caFile: '',
  ...changes,
})
